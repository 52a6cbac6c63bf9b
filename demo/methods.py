"""What the methods are called, and in which order and colour they appear."""

from __future__ import annotations

from collections.abc import Iterable

from moa_core.presets import tli_of

# Colours by family (Okabe and Ito's, safe for colour-blind eyes) and, in charts, a dash each.
FAMILIES = {
    "moa": ("MoA", "#0f9d8a"),
    "moa-auto": ("MoA, auto N", "#7a5195"),
    "given": ("Drafter", "#0f9d8a"),
    "eagle2": ("EAGLE-2", "#d55e00"),
    "eagle": ("EAGLE", "#e69f00"),
    "glide": ("GLIDE", "#0072b2"),
    "medusa": ("Medusa", "#cc79a7"),
    "independent": ("Independent model", "#56b4e9"),
    "ngram": ("N-gram lookup", "#8a7a3c"),
    "vanilla": ("Vanilla", "#8a8580"),
}
ABLATIONS = {  # MoA with one thing changed: recorded, never offered
    "moa-mean-lsa": "MoA, mean of LSA",
    "moa-no-lsa": "MoA without LSA",
    "moa-no-sa": "MoA without SA",
    "moa-no-ca": "MoA, not on-policy",
}
AUTO = "moa-auto"  # all trained N, one chosen for each cycle
VANILLA = "vanilla"  # plain decoding
RIVAL = "eagle2"  # whom the paper compares MoA with
SHADES = ("#7cc7bb", "#3fb3a2", "#0f9d8a", "#066d5f")  # MoA N = 0 to 3: the darker, the more


def family(name: str) -> str:
    """moa-n1 -> moa; but moa-no-lsa, an ablation, is itself."""
    return "moa" if name.removeprefix("moa-n").isdecimal() and name.startswith("moa-n") else name


def label(name: str) -> str:
    """moa-n1 -> MoA N=1, eagle2 -> EAGLE-2."""
    words = FAMILIES.get(family(name), (ABLATIONS.get(name, name), ""))[0]
    return f"{words} N={tli_of(name)}" if family(name) == "moa" else words


def colour(name: str) -> str:
    """The colour of a method in every chart."""
    if family(name) == "moa":
        return SHADES[min(tli_of(name), len(SHADES) - 1)]
    return FAMILIES.get(name, ("", "#8a8580"))[1]


def ordered(names: Iterable[str]) -> list[str]:
    """Names in the order of the families, MoA by N."""
    places = {name: place for place, name in enumerate(FAMILIES)}
    return sorted(names, key=lambda name: (places.get(family(name), len(places)), tli_of(name)))
