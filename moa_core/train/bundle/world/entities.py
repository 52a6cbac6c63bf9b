"""The words of the world, and who and what is in it, with the forms in which each is named."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeVar

from moa_core.train.bundle.words import read

T = TypeVar("T")
RARE = 0.02  # weight of an option that nothing favours; the favourite has 1, the next one 1/2 ...


class Noun(NamedTuple):
    """A noun. `number` is "one", "mass" (some milk) or "many" (some boots)."""

    word: str
    kind: str
    tags: frozenset[str]
    number: str = "one"


class Adjective(NamedTuple):
    """An adjective, what it describes, and its family of character traits."""

    word: str
    group: str
    family: str


class Lexicon(NamedTuple):
    """All words, by their form."""

    nouns: dict[str, Noun]
    adjectives: dict[str, Adjective]
    verbs: dict[str, list[list[str]]]  # what one does often, and what one does in a scene
    names: dict[str, list[str]]
    cast: dict[str, list[str]]
    species: dict[str, dict[str, str]]
    by_kind: dict[str, list[Noun]]
    by_group: dict[str, list[Adjective]]


@cache
def _raw() -> dict[str, Any]:
    return read("world/lexicon.toml")


@cache
def drawn(name: str, table: str = "draws") -> list[Any]:
    """A list to draw from."""
    found = _raw()[table].get(name, [])
    return found.split() if isinstance(found, str) else found


def favoured(rng: random.Random, options: Sequence[T], by: str) -> T:
    """One of the options, most often a favourite of `by`.

    A small model writes what is likeliest. If all options were equally likely, all its stories
    would be the same one; so a plot has its own names and words, and a word its own plots.
    """
    return rng.choices(options, _weights(by, len(options)))[0]


@cache
def _weights(by: str, count: int) -> tuple[float, ...]:
    order = random.Random(by).sample(range(count), count)
    return tuple(max(0.5**rank, RARE) for rank in order)


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
    verbs = {
        verb: [uses.split("; ") for uses in text.split(" | ")]
        for verb, text in raw["verbs"].items()
    }
    names, cast = ({key: text.split() for key, text in raw[t].items()} for t in ("names", "cast"))
    by_kind: dict[str, list[Noun]] = defaultdict(list)
    for noun in nouns.values():
        by_kind[noun.kind].append(noun)
    by_group: dict[str, list[Adjective]] = defaultdict(list)
    for adjective in adjectives.values():
        by_group[adjective.group].append(adjective)
    return Lexicon(nouns, adjectives, verbs, names, cast, raw["species"], by_kind, by_group)


@cache
def places() -> dict[str, dict[str, Any]]:
    """Each place's preposition, tags and hiding spots."""
    return read("world/places.toml")


class Given:
    """The nouns and adjectives that a story must use, and that nothing in it stands for yet."""

    def __init__(self, words: tuple[str, ...]) -> None:
        known = lexicon()
        self.nouns = [known.nouns[word] for word in words if word in known.nouns]
        others = [word for word in words if word not in known.nouns]
        self.adjectives = [known.adjectives[w] for w in others if w in known.adjectives]

    def noun(self, fits: Callable[[Noun], bool]) -> Noun | None:
        """Take the first noun that fits."""
        found = next(filter(fits, self.nouns), None)
        if found:
            self.nouns.remove(found)
        return found

    def word(self, fits: Callable[[Noun], bool]) -> str | None:
        found = self.noun(fits)
        return found and found.word

    def being(self) -> Noun | None:
        """The first being that can be a hero. It stays here until it is taken."""
        return next((one for one in self.nouns if one.kind in ("animal", "person")
                     and "water" not in one.tags), None)  # fmt: skip

    def adjective(self, *groups: str) -> str | None:
        """Take the first adjective of these groups."""
        found = next((one for one in self.adjectives if one.group in groups), None)
        if found:
            self.adjectives.remove(found)
        return found and found.word


@dataclass(eq=False)
class Being:
    """A person or an animal.

    first   its name at the first mention; `{his}` stands for the hero's pronoun
    others  more names, after the first mention
    """

    noun: str
    pron: str
    adjective: str
    name: str
    first: str
    human: bool = True
    others: tuple[str, ...] = ()
    age: str = "child"

    @property
    def later(self) -> str:
        """Its name after the first mention."""
        return self.name or f"the {self.noun}"

    @property
    def family(self) -> str:
        """How a being with this adjective acts."""
        found = lexicon().adjectives.get(self.adjective)
        return found.family if found else ""

    @property
    def body(self) -> dict[str, str]:
        """Words for its hands, its home and its movements."""
        noun = None if self.human else lexicon().nouns.get(self.noun)
        tags = noun.tags if noun else ()
        found = next((tag for tag in ("land", "bird", "water", "tiny") if tag in tags), "person")
        return lexicon().species[found]


@dataclass(eq=False)
class Group:
    members: tuple[Being, Being]

    @property
    def pron(self) -> str:
        return "we" if any(being.pron == "I" for being in self.members) else "they"


@dataclass(eq=False)
class Thing:
    noun: Noun
    adjective: str = ""

    @property
    def pron(self) -> str:
        return "they" if self.noun.number == "many" else "it"

    @property
    def described(self) -> str:
        return f"{self.adjective} {self.noun.word}".strip()


@dataclass(eq=False)
class Place:
    noun: Noun
    inside: str  # "in the", "at the", "on the"
    tags: frozenset[str]
    spots: list[str] = field(default_factory=list)
    pron: str = "it"

    @property
    def at(self) -> str:
        return f"{self.inside} {self.noun.word}"


Entity = Being | Group | Thing | Place | str
