"""Who and what is in the world, and the forms in which each is named."""

from __future__ import annotations

from dataclasses import dataclass, field

from moa_core.train.bundle.world.lexicon import Noun, lexicon


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
