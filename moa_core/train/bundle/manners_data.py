"""The wordings of manners, split into training and held out, and the ways people type."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from moa_core.train.bundle import tasks
from moa_core.train.bundle.words import read

_NO_SLIP = re.compile(r"(\[[^]]*\])|([A-Za-z]{4,})")


@dataclass(frozen=True)
class Sort:
    """One sort of message. `user` has the templates for training, then the held-out ones."""

    weight: float
    user: list[list[str]]
    reply: tuple[str, ...]
    offers: list[str]
    topical: tuple[str, ...] = ()
    dressed: bool = False
    warm: bool = False
    first: bool = False
    middle: float = 0.8


@dataclass(frozen=True)
class Wordings:
    """The contents of the two data files."""

    rules: Mapping[str, tuple[str, ...]]
    things: tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]
    middles: Mapping[str, tuple[str, ...]]
    offers: Mapping[str, tuple[str, ...]]
    sorts: Mapping[str, Sort]


def is_held_out(text: str) -> bool:
    """Whether a text is held out, whatever its case and punctuation."""
    return tasks.is_held_out(" ".join(re.findall(r"[\w{}]+", text.lower())) or text)


@cache
def wordings() -> Wordings:
    data, raw = read("tables/manners.toml"), read("tables/manners_things.toml")
    things = {name: tuple(re.split(r",\s+", text.strip())) for name, text in raw.items()}
    seen = {
        name: tuple(thing for thing in listed if not is_held_out(thing))
        for name, listed in things.items()
    }
    rules = _lines(data["rules"]) | _lines(data["parts"])
    sorts = {name: _sort(table, rules) for name, table in data["chat"].items()}
    middles, offers = _lines(data["middles"]), _lines(data["offers"])
    return Wordings(rules, (seen, things), middles, offers, sorts)


def _lines(table: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(text.strip("\n").split("\n")) for name, text in table.items()}


def _sort(table: dict[str, Any], rules: Mapping[str, tuple[str, ...]]) -> Sort:
    lines = {key: table.get(key, "").strip().split("\n") for key in ("user", "reply", "topical")}
    split = [[line for line in lines["user"] if is_held_out(line) == side] for side in (0, 1)]
    # A line that is the name of a rule stands for the rule's lines.
    reply = chain.from_iterable(rules.get(line.strip("{}"), (line,)) for line in lines["reply"])
    offers, topical = table["offers"].split(), tuple(filter(None, lines["topical"]))
    read = {"user": split, "reply": tuple(reply), "offers": offers, "topical": topical}
    return Sort(**{**table, **read})


def styled(said: str, rng: random.Random, kept: str) -> str:
    """A message in a random style. A [topic] and the words of `kept` get no typing slip."""
    share = rng.random()
    if share < 0.42:
        return said
    if share < 0.68 or share > 0.96:
        said = said.lower()
    if share < 0.60 or 0.68 < share < 0.76:
        return said.rstrip(".?!") or said
    if 0.76 < share < 0.79:
        return said.upper()
    if 0.79 < share < 0.87 or share > 0.96:
        return _with_slip(said, rng, kept)
    if share > 0.87:
        return said + rng.choice(("!", "!!", "??", "?", "...", " ", "  ", " :)", " please", " pls"))
    return said


def _with_slip(said: str, rng: random.Random, kept: str) -> str:
    """A letter lost, doubled or swapped in one word."""
    found = _NO_SLIP.finditer(said)
    words = [match for match in found if match[2] and match[2].lower() not in kept.lower()]
    if not words:
        return said
    at = rng.choice(words).start() + rng.randint(1, 2)
    middle = rng.choice(("", said[at] * 2, None))
    if middle is None:
        return said[:at] + said[at + 1] + said[at] + said[at + 2 :]
    return said[:at] + middle + said[at + 1 :]
