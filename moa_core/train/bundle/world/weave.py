"""Finds a sentence for each given word that has no role in the story."""

import random

from moa_core.train.bundle.world.entities import Entity, Thing
from moa_core.train.bundle.world.grammar import sections
from moa_core.train.bundle.world.lexicon import lexicon

_MOODS = {"mood": "weave.mood", "colour": "weave.colour", "weather": "weave.weather_adjective",
          "food": "weave.food_adjective", "place": "weave.place_adjective"}  # fmt: skip
_ALIKE = {"dish": "food"}


def frames(words: list[str], rng: random.Random) -> list[tuple[str, dict[str, Entity]]]:
    """For each word the name of an event that uses it, with its roles."""
    return [_frame(word, rng) for word in words]


def _frame(word: str, rng: random.Random) -> tuple[str, dict[str, Entity]]:
    known = lexicon()
    roles: dict[str, Entity] = {"w": word}
    if word in known.nouns:
        noun = known.nouns[word]
        roles["x"] = Thing(noun)
        name = (
            f"weave.{word}"
            if f"weave.{word}" in sections()
            else f"weave.{_ALIKE.get(noun.kind, noun.kind)}"
        )
        return name, roles
    if word in known.adjectives:
        group = known.adjectives[word].group
        return _MOODS.get(group, f"weave.{group}"), roles
    if word in known.verbs:
        roles["use"] = rng.choice(known.verbs[word])
        return "weave.verb", roles
    roles["w"] = word
    return "weave.unknown", roles
