"""Who and what is in the world, and the forms in which each is named."""

from __future__ import annotations

from dataclasses import dataclass, field

from moa_core.train.bundle.world.lexicon import Noun

PRONOUNS: dict[str, tuple[str, str, str, str]] = {
    "he": ("he", "him", "his", "himself"),
    "she": ("she", "her", "her", "herself"),
    "it": ("it", "it", "its", "itself"),
    "they": ("they", "them", "their", "themselves"),
    "I": ("I", "me", "my", "myself"),
    "we": ("we", "us", "our", "ourselves"),
}


@dataclass(eq=False)
class Being:
    """A person or an animal. `first` names one who is new, `{his}` in it being the hero's."""

    noun: str
    pron: str
    name: str
    first: str
    later: str
    adjective: str
    family: str  # of the adjective: what it makes one do
    human: bool
    body: dict[str, str]
    others: tuple[str, ...] = ()  # more names to call one who is known
    age: str = "child"


@dataclass(eq=False)
class Group:
    """Two beings told of together."""

    members: tuple[Being, Being]

    @property
    def pron(self) -> str:
        return "we" if any(being.pron == "I" for being in self.members) else "they"


@dataclass(eq=False)
class Thing:
    """A thing: what it is, and what it is like."""

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
    """A place, with the words that lead to it and the spots in it."""

    noun: Noun
    inside: str  # "in the", "at the", "on the"
    tags: frozenset[str]
    spots: list[str] = field(default_factory=list)
    pron: str = "it"

    @property
    def at(self) -> str:
        return f"{self.inside} {self.noun.word}"


Entity = Being | Group | Thing | Place | str
