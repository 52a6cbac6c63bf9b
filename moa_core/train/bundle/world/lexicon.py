"""The words of the world: nouns by kind, adjectives by group, verbs with their uses."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

from moa_core.train.bundle.world.grammar import data


class Noun(NamedTuple):
    """A noun. `number` is "one", "mass" (some milk) or "many" (some boots)."""

    word: str
    kind: str
    tags: frozenset[str]
    number: str = "one"

    @property
    def article(self) -> str:
        """The article of a new noun. `articles` turns "a" into "an" later."""
        return "a" if self.number == "one" else "some"


class Adjective(NamedTuple):
    """An adjective, what it describes, and its family of character traits."""

    word: str
    group: str
    family: str


Word = TypeVar("Word", Noun, Adjective)


class Lexicon(NamedTuple):
    """All words, by their form."""

    nouns: dict[str, Noun]
    adjectives: dict[str, Adjective]
    verbs: dict[str, tuple[str, ...]]
    names: dict[str, list[str]]
    cast: dict[str, list[str]]
    species: dict[str, dict[str, str]]
    by_kind: dict[str, list[Noun]]
    by_group: dict[str, list[Adjective]]


@cache
def _raw() -> dict[str, Any]:
    return tomllib.loads((data() / "lexicon.toml").read_text("utf-8"))


@cache
def drawn(name: str, table: str = "draws") -> list[Any]:
    """A list to draw from."""
    found = _raw()[table].get(name, [])
    return found.split() if isinstance(found, str) else found


@cache
def weather() -> dict[str, list[str]]:
    return {season: drawn(season, "weather") for season in _raw()["weather"]}


@cache
def lexicon() -> Lexicon:
    raw = _raw()
    nouns: dict[str, Noun] = {}
    for heading, text in raw["nouns"].items():
        kind, *tags = heading.split()
        for marked in text.split():
            number = {"~": "mass", "*": "many"}.get(marked[-1], "one")
            word = marked.rstrip("~*").replace("_", " ")
            nouns.setdefault(word, Noun(word, kind, frozenset(tags), number))
    adjectives: dict[str, Adjective] = {}
    for heading, text in raw["adjectives"].items():
        group, _, family = heading.partition(" ")
        for word in text.split():
            adjectives.setdefault(word, Adjective(word, group, family or word))
    verbs = {verb: tuple(uses.split("; ")) for verb, uses in raw["verbs"].items()}
    names, cast = ({key: text.split() for key, text in raw[t].items()} for t in ("names", "cast"))
    by_kind = _grouped(nouns, lambda noun: noun.kind)
    by_group = _grouped(adjectives, lambda adjective: adjective.group)
    return Lexicon(nouns, adjectives, verbs, names, cast, raw["species"], by_kind, by_group)


def _grouped(words: dict[str, Word], key: Callable[[Word], str]) -> dict[str, list[Word]]:
    groups: dict[str, list[Word]] = {}
    for word in words.values():
        groups.setdefault(key(word), []).append(word)
    return groups


@cache
def places() -> dict[str, dict[str, Any]]:
    """Each place's preposition, tags and hiding spots."""
    found: dict[str, dict[str, Any]] = tomllib.loads((data() / "places.toml").read_text("utf-8"))
    return found


class Given:
    """The words that a story must use. Nouns and adjectives may be cast; the rest is woven in."""

    def __init__(self, words: tuple[str, ...]) -> None:
        known = lexicon()
        self.nouns = [known.nouns[word] for word in words if word in known.nouns]
        others = [word for word in words if word not in known.nouns]
        self.adjectives = [known.adjectives[w] for w in others if w in known.adjectives]
        self._rest = [word for word in others if word not in known.adjectives]

    def noun(self, fits: Callable[[Noun], bool]) -> Noun | None:
        return _take(self.nouns, fits)

    def adjective(self, *groups: str) -> Adjective | None:
        return _take(self.adjectives, lambda adjective: adjective.group in groups)

    def left(self) -> set[str]:
        """The words that have no role."""
        return {*(n.word for n in self.nouns), *(a.word for a in self.adjectives), *self._rest}


def _take(words: list[Word], fits: Callable[[Word], bool]) -> Word | None:
    """Remove and return the first word that fits."""
    found = next(filter(fits, words), None)
    if found:
        words.remove(found)
    return found
