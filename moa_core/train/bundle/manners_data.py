"""The wordings of manners, from their two data files, split into training and held out."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from moa_core.train.bundle import tasks


@dataclass(frozen=True)
class Sort:
    """One sort of message; `user` holds the templates for training and the held-out ones."""

    weight: float
    user: tuple[tuple[str, ...], tuple[str, ...]]
    reply: tuple[str, ...]
    offers: tuple[str, ...]
    topical: tuple[str, ...] = ()
    dressed: bool = False
    warm: bool = False
    first: bool = False
    middle: float = 0.8


@dataclass(frozen=True)
class Wordings:
    """All that the two data files hold."""

    rules: Mapping[str, tuple[str, ...]]
    things: tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]
    middles: Mapping[str, tuple[str, ...]]
    offers: Mapping[str, tuple[str, ...]]
    sorts: Mapping[str, Sort]


def is_held_out(text: str) -> bool:
    """Whether a text is held out; templates that differ in case or marks only go together."""
    return (
        tasks.bucket(" ".join(re.findall(r"[\w{}]+", text.lower())) or text)
        < tasks.HELD_OUT_PERCENT
    )


@cache
def wordings() -> Wordings:
    """The two files, read once."""
    folder = resources.files("moa_core.train.bundle")
    data, raw = (
        tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))
        for name in ("manners.toml", "manners_things.toml")
    )
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
    user = table["user"].strip().split("\n")
    split = ([line for line in user if is_held_out(line) == side] for side in (False, True))
    # A line that is one rule stands for that rule's lines.
    reply = [rules.get(line.strip("{}"), (line,)) for line in table["reply"].strip().split("\n")]
    return Sort(
        weight=table["weight"],
        user=(tuple(next(split)), tuple(next(split))),
        reply=tuple(line for lines in reply for line in lines),
        offers=tuple(table["offers"].split()),
        topical=tuple(table["topical"].strip().split("\n")) if "topical" in table else (),
        dressed=table.get("dressed", False),
        warm=table.get("warm", False),
        first=table.get("first", False),
        middle=table.get("middle", 0.8),
    )
