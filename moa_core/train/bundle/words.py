"""Words and phrases for the tasks, and numbers from 0 to 9999 in Spanish and French."""

from __future__ import annotations

import random
import string
import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any


def read(name: str) -> dict[str, Any]:
    """A data file of this package."""
    return tomllib.loads((files(__package__) / name).read_text("utf-8"))


_RAW = read("tables/words.toml")
_SPANISH: dict[str, list[str]] = {key: text.split() for key, text in _RAW["spanish"].items()}
_FRENCH: dict[str, list[str]] = {key: text.split() for key, text in _RAW["french"].items()}

PHRASES: dict[str, list[str]] = read("tables/phrases.toml")
LETTERS = string.ascii_lowercase
WORDS: tuple[str, ...] = tuple(_RAW["words"].split())
LITTLE: frozenset[str] = frozenset(_RAW["little"].split())
THINGS: tuple[str, ...] = tuple(_RAW["things"].split())
HOLDERS: tuple[str, ...] = tuple(_RAW["holders"].split())
PEOPLE: tuple[tuple[str, str], ...] = tuple(
    (name, pronoun) for pronoun in ("he", "she") for name in _RAW[pronoun].split()
)


def invented_word(rng: random.Random) -> str:
    """A made-up word of 3 to 9 letters, which no model has learnt by heart."""
    length = rng.randint(3, 9)
    word = "".join(
        rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") + rng.choice(("", "", *"lnrst"))
        for _ in range(length)
    )
    return word[:length]


def spanish(number: int) -> str:
    """The Spanish words for `number` (0 to 9999)."""
    if number == 100:
        return "cien"
    if number < 30:
        return _SPANISH["small"][number]
    if number < 100:
        tens, ones = _SPANISH["tens"][number // 10 - 3], number % 10
        return f"{tens} y {_SPANISH['small'][ones]}" if ones else tens
    if number < 1000:
        return _joined(_SPANISH["hundreds"][number // 100 - 1], number % 100, spanish)
    thousands = number // 1000
    head = "mil" if thousands == 1 else f"{spanish(thousands)} mil"
    return _joined(head, number % 1000, spanish)


def french(number: int) -> str:
    """The French words for `number` (0 to 9999)."""
    if number < 20:
        return _FRENCH["small"][number]
    if number < 100:
        tens = _FRENCH["tens"][number // 10 - 2]
        # The seventies and nineties go on counting from sixty and from eighty.
        ones = number % 20 if number >= 60 else number % 10
        if not ones:
            return "quatre-vingts" if number == 80 else tens
        joint = " et " if ones in (1, 11) and number < 80 else "-"
        return f"{tens}{joint}{_FRENCH['small'][ones]}"
    unit, name = (100, "cent") if number < 1000 else (1000, "mille")
    count, rest = divmod(number, unit)
    head = name if count == 1 else f"{french(count)} {name}"
    if unit == 100 and count > 1 and not rest:
        head += "s"
    return _joined(head, rest, french)


def _joined(head: str, rest: int, words: Callable[[int], str]) -> str:
    return f"{head} {words(rest)}" if rest else head
