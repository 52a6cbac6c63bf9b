"""What the methods are called, and in which order and colour they appear."""

from __future__ import annotations

from collections.abc import Iterable

from moa_core.loading.names import AUTO, VANILLA, family, label, tli_of

__all__ = ["AUTO", "RIVAL", "VANILLA", "colour", "family", "label", "ordered", "tli_of"]

# By family, in order (Okabe and Ito's, safe for colour-blind eyes); in charts a dash each, too.
COLOURS = {
    "moa": "#0f9d8a",
    AUTO: "#7a5195",
    "given": "#0f9d8a",
    "eagle2": "#d55e00",
    "eagle": "#e69f00",
    "glide": "#0072b2",
    "medusa": "#cc79a7",
    "independent": "#56b4e9",
    "ngram": "#8a7a3c",
    VANILLA: "#8a8580",
}
RIVAL = "eagle2"  # whom the paper compares MoA with
SHADES = ("#7cc7bb", "#3fb3a2", "#0f9d8a", "#066d5f")  # MoA N = 0 to 3: the darker, the more


def colour(name: str) -> str:
    """The colour of a method in every chart."""
    if family(name) == "moa":
        return SHADES[min(tli_of(name), len(SHADES) - 1)]
    return COLOURS.get(name, COLOURS[VANILLA])


def ordered(names: Iterable[str]) -> list[str]:
    """Names in the order of the families, MoA by N."""
    places = {name: place for place, name in enumerate(COLOURS)}
    return sorted(names, key=lambda name: (places.get(family(name), len(places)), tli_of(name)))
