"""Words for a story, drawn to fit together or to be an odd mixture."""

import random

from moa_core.train.bundle.world.lexicon import Lexicon, lexicon

_CHARACTERS = ("animal", "animal", "animal", "person", "person", "family")
_SETTINGS = ("place", "place", "place", "weather", "time", "nature", "sky", "event")
_THINGS = (
    "toy", "tool", "light", "container", "clothes", "food", "treasure", "book", "music", "vehicle",
    "furniture", "plant", "body", "abstract", "food", "dish", "toy",
)  # fmt: skip
_GROUPS = ("trait", "trait", "trait", "mood", "mood", "colour", "thing", "place", "weather")


def words_for(rng: random.Random) -> tuple[str, ...]:
    """Two to four words: a thing, a setting, a character, an adjective, now and then a verb."""
    known = lexicon()
    makers = [_noun_of(known, rng, _THINGS), _noun_of(known, rng, _SETTINGS),
              _noun_of(known, rng, _CHARACTERS), _adjective(known, rng)]  # fmt: skip
    if rng.random() < 0.35:
        makers.append(rng.choice(sorted(known.verbs)))
    if rng.random() < 0.2:
        makers.append(_noun_of(known, rng, _THINGS))
    rng.shuffle(makers)
    drawn = tuple(dict.fromkeys(makers[: rng.choice((2, 3, 3, 3, 4))]))
    return drawn if len(drawn) > 1 else words_for(rng)


def _noun_of(known: Lexicon, rng: random.Random, kinds: tuple[str, ...]) -> str:
    return rng.choice(known.by_kind[rng.choice(kinds)]).word


def _adjective(known: Lexicon, rng: random.Random) -> str:
    return rng.choice(known.by_group[rng.choice(_GROUPS)]).word
