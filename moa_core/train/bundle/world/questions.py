"""Questions about a story whose answers are in its text."""

import random
import re
from collections import defaultdict
from dataclasses import dataclass

from moa_core.train.bundle.words import PHRASES
from moa_core.train.bundle.world.entities import Being, Place, Thing
from moa_core.train.bundle.world.grammar import Slot, section, sections, slots
from moa_core.train.bundle.world.lexicon import lexicon
from moa_core.train.bundle.world.teller import Teller, articles, polish
from moa_core.train.bundle.world.world import Event, World

_WORD = re.compile(r"\w+")


class _First(random.Random):
    """Always draws the first option."""

    def random(self) -> float:
        return 0.0


_FIRST = _First()


@dataclass(frozen=True)
class Question:
    """A question and its answer.

    follow  the same question with pronouns
    then    what happened next, if known
    """

    question: str
    answer: str
    follow: str
    then: str = ""


def questions(world: World, told: list[Event], text: str) -> tuple[Question, ...]:
    """All questions about the told events. A question about two of them is left out."""
    found: dict[str, list[Question]] = defaultdict(list)
    rng = world.rng
    for number, event in enumerate([*told, *_about(world)]):
        source = sections().get(event.name) or section(event.name)
        for asked, answered in source.asks:
            named = [slot for slot in slots(answered) if not slot.role.startswith("~")]
            if not all(_names(world, event, slot, text) for slot in named):
                continue
            plain = Teller(world, rng, plain=True)
            question = _sentence(plain.render(asked, event))
            beings = (world.hero, *event.roles.values())
            plain.refs.prime(*(each for each in beings if isinstance(each, (Being, Thing))))
            plain.refs.plain = False
            follow = _sentence(plain.render(asked, event))
            plain.refs.plain = True
            plain.rng = _FIRST  # always the same wording, so that an answer can be checked
            answer = _sentence(plain.render(answered, event))
            if world.hero.pron == "I" and plain.refs.storyteller in f"{question} {answer}".lower():
                continue
            if _unsaid(answer, f"story {question} {text}"):
                continue
            then = _then(world, told[number + 1 :])
            found[f"{event.name} {asked}"].append(Question(question, answer, follow, then))
    once = [group[0] for group in found.values() if len(group) == 1]
    return tuple(once) + (_order(world, told) if world.hero.pron != "I" else ())


def follow_ups(world: World, told: list[Event]) -> tuple[str, ...]:
    """What happened, in order: one plain sentence for each event."""
    return tuple(_sentence(f"{clause}.") for clause in _clauses(world, told))


def _clauses(world: World, told: list[Event]) -> list[str]:
    plain = Teller(world, world.rng, plain=True)
    return [
        plain.render(world.rng.choice(clauses), event)
        for event in told
        if (clauses := section(event.name).clauses)
    ]


def _then(world: World, later: list[Event]) -> str:
    return next((text for each in later for text in follow_ups(world, [each])), "")


def _about(world: World) -> list[Event]:
    tags = frozenset(world.tags)
    names = ["about.place", "about.animal" if not world.hero.human else "about.person"]
    if world.hero.adjective:
        names.append("about.trait")
    if isinstance(thing := world.cast.get("thing"), Thing) and thing.adjective:
        names.append("about.thing")
    return [Event(name, {}, True, tags) for name in names]


def _order(world: World, told: list[Event]) -> tuple[Question, ...]:
    rng, texts = world.rng, [articles(clause) for clause in _clauses(world, told)]
    if len(texts) < 3 or len(set(texts)) < len(texts):
        return ()
    at = rng.randrange(len(texts) - 1)
    first, then, last = texts[at], texts[at + 1], texts[-1]
    after, order = rng.choice(PHRASES["after"]).format(first), rng.choice(PHRASES["order"])
    pair = [first, last]
    rng.shuffle(pair)
    asked = order.format(*pair)
    return (
        Question(after, _sentence(f"{then}."), after),
        Question(asked, _sentence(f"first, {first}."), asked),
    )


def _unsaid(answer: str, text: str) -> set[str]:
    """Nouns of the answer that are not in the text."""
    told, nouns = set(_WORD.findall(text.lower())), lexicon().nouns
    return {word for word in _WORD.findall(answer.lower()) if word in nouns} - told


def _names(world: World, event: Event, slot: Slot, text: str) -> bool:
    """Whether the text names what the slot stands for."""
    entity = event.roles.get(slot.role) or world.cast.get(slot.role)
    low = text.lower()
    if isinstance(entity, Thing):
        adjective = entity.adjective if slot.form in ("a", "an", "adj") else ""
        return entity.noun.word.lower() in low and adjective.lower() in low
    if isinstance(entity, Place):
        return entity.noun.word in low
    if isinstance(entity, Being):
        word = {"adj": entity.adjective, "kind": entity.noun, "a": entity.noun}.get(slot.form)
        if word is not None:
            return re.search(rf"\b{re.escape(word)}\b", low) is not None
        return entity.pron == "I" or entity.later.lower() in low
    return entity.lower() in low if isinstance(entity, str) else True


def _sentence(text: str) -> str:
    return polish(text[:1].upper() + text[1:])
