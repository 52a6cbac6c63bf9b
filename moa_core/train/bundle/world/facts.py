"""What a world is given, what it is to tell, and what it writes down."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from moa_core.train.bundle.world.entities import Entity
from moa_core.train.bundle.world.lexicon import Adjective, Noun, lexicon

if TYPE_CHECKING:
    from moa_core.train.bundle.world.world import World


class Plot(NamedTuple):
    """A schema of a story and what it asks of the world it happens in."""

    name: str
    run: Callable[["World"], None]
    modes: frozenset[str]  # of "human", "fable", "I"
    things: tuple[str, ...]
    place: tuple[str, ...]
    ages: str
    weather: tuple[str, ...]
    time: tuple[str, ...]
    animals: frozenset[str]
    adjectives: frozenset[str]


class Event(NamedTuple):
    """Something that happened: its name, who and what took part, and whether it must be told."""

    name: str
    roles: dict[str, Entity]
    core: bool
    tags: frozenset[str]


@dataclass
class Given:
    """The given words, by what can be cast; what is left over is woven in."""

    nouns: list[Noun] = field(default_factory=list)
    adjectives: list[Adjective] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, words: tuple[str, ...]) -> "Given":
        """The words, looked up."""
        given, known = cls(), lexicon()
        for word in words:
            if word in known.nouns:
                given.nouns.append(known.nouns[word])
            elif word in known.adjectives:
                given.adjectives.append(known.adjectives[word])
            else:
                given.rest.append(word)
        return given

    def noun(self, fits: Callable[[Noun], bool]) -> Noun | None:
        """The first noun that fits, taken out."""
        found = next(filter(fits, self.nouns), None)
        if found:
            self.nouns.remove(found)
        return found

    def adjective(self, *groups: str) -> Adjective | None:
        """The first adjective of the groups, taken out."""
        found = next((each for each in self.adjectives if each.group in groups), None)
        if found:
            self.adjectives.remove(found)
        return found

    def left(self) -> list[str]:
        """All words that have no role."""
        adjectives = [adjective.word for adjective in self.adjectives]
        return [noun.word for noun in self.nouns] + adjectives + self.rest
