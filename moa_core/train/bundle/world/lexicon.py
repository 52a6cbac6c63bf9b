"""The words of the world: nouns by class, adjectives by group, verbs with what they are done to."""

import tomllib
from functools import cache
from typing import Any, NamedTuple

from moa_core.train.bundle.world.grammar import data


class Noun(NamedTuple):
    """A noun. `number` is "one", "mass" (some milk) or "many" (some boots)."""

    word: str
    kind: str
    tags: frozenset[str]
    number: str = "one"

    @property
    def article(self) -> str:
        """The word before it when it is new; a/an is settled later."""
        return "a" if self.number == "one" else "some"


class Adjective(NamedTuple):
    """An adjective and what it may be said of."""

    word: str
    group: str
    family: str


class Lexicon(NamedTuple):
    """All words by their form."""

    nouns: dict[str, Noun]
    adjectives: dict[str, Adjective]
    verbs: dict[str, tuple[str, ...]]
    names: dict[str, list[str]]
    cast: dict[str, list[str]]
    species: dict[str, dict[str, str]]
    by_kind: dict[str, list[Noun]]
    by_group: dict[str, list[Adjective]]


@cache
def lexicon() -> Lexicon:
    """The lexicon, read once."""
    raw = tomllib.loads((data() / "lexicon.toml").read_text("utf-8"))
    nouns: dict[str, Noun] = {}
    for heading, text in raw["nouns"].items():
        kind, *tags = heading.split()
        for marked in text.split():
            noun = _noun(marked, kind, frozenset(tags))
            nouns.setdefault(noun.word, noun)
    adjectives: dict[str, Adjective] = {}
    for heading, text in raw["adjectives"].items():
        group, _, family = heading.partition(" ")
        for word in text.split():
            adjectives.setdefault(word, Adjective(word, group, family or word))
    verbs = {verb: tuple(uses.split("; ")) for verb, uses in raw["verbs"].items()}
    names, cast = (
        {key: text.split() for key, text in raw[table].items()} for table in ("names", "cast")
    )
    by_kind: dict[str, list[Noun]] = {}
    for noun in nouns.values():
        by_kind.setdefault(noun.kind, []).append(noun)
    by_group: dict[str, list[Adjective]] = {}
    for adjective in adjectives.values():
        by_group.setdefault(adjective.group, []).append(adjective)
    return Lexicon(nouns, adjectives, verbs, names, cast, raw["species"], by_kind, by_group)


@cache
def places() -> dict[str, dict[str, Any]]:
    """What is known of each place: preposition, tags, hiding spots."""
    found: dict[str, dict[str, Any]] = tomllib.loads((data() / "places.toml").read_text("utf-8"))
    return found


def _noun(marked: str, kind: str, tags: frozenset[str]) -> Noun:
    number = {"~": "mass", "*": "many"}.get(marked[-1], "one")
    return Noun(marked.rstrip("~*").replace("_", " "), kind, tags, number)
