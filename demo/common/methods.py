"""The methods' names, order and colours."""

from collections.abc import Iterable

from demo.common.theme import MOA_SHADES, OTHER_METHODS, mark
from moa_core.drafters.names import LOOKUP, VANILLA, family, label, tli_of

__all__ = ["LOOKUP", "RIVAL", "VANILLA", "colour", "family", "label", "ordered", "tli_of"]

# By family; the page lists methods in this order.
COLOURS = {
    "moa": mark("moa"),
    "given": mark("moa"),
    "eagle2": mark("eagle2"),
    **OTHER_METHODS,
    VANILLA: mark("plain"),
}
RIVAL = "eagle2"  # the paper compares MoA with it


def colour(name: str) -> str:
    name = name.removesuffix(LOOKUP)
    if family(name) == "moa":
        return MOA_SHADES[min(tli_of(name), len(MOA_SHADES) - 1)]
    return COLOURS.get(name, COLOURS[VANILLA])


def ordered(chosen: Iterable[str]) -> list[str]:
    """Names in the order of the families, MoA by N."""
    places = {name: place for place, name in enumerate(COLOURS)}

    def place(name: str) -> tuple[int, int, bool]:
        drafter = name.removesuffix(LOOKUP)
        return places.get(family(drafter), len(places)), tli_of(drafter), drafter != name

    return sorted(chosen, key=place)
