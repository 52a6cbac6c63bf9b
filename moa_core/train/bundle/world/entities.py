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
    """A person or an animal.

    first   its name at the first mention; `{his}` stands for the hero's pronoun
    later   its name from then on; `others` are more such names
    family  of the adjective: how such a being acts
    """

    noun: str
    pron: str
    name: str
    first: str
    later: str
    adjective: str
    family: str
    human: bool
    body: dict[str, str]
    others: tuple[str, ...] = ()
    age: str = "child"


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
