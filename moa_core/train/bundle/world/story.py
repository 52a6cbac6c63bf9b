"""Stories: make a world, run it, tell it and ask about it."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass

from moa_core.train.bundle.words import PHRASES
from moa_core.train.bundle.world.entities import Being, Given, Place, Thing, favoured, lexicon
from moa_core.train.bundle.world.grammar import Slot, Wording, section, sections, slots
from moa_core.train.bundle.world.teller import Teller, articles, polish
from moa_core.train.bundle.world.world import Event, Plot, World, plots

_TRIES = 12
_SENTENCE_END = re.compile(r'[.!?]"?(?=\s)')
_RUN = 7  # no story has the same 7 words in a row twice
_SMALL_WORDS = ("a", "an", "the", "and", "of", "in", "on", "at", "by", "to", "for", "who", "with")
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
    """

    question: str
    answer: str
    follow: str


def questions(world: World, told: list[Event], text: str) -> tuple[Question, ...]:
    """All questions about the told events. A question about two of them is left out."""
    found: dict[str, list[Question]] = defaultdict(list)
    rng = world.rng
    for event in [*told, *_about(world)]:
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
            found[f"{event.name} {asked}"].append(Question(question, answer, follow))
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
    first = rng.choice(texts[:-1])
    pair = [first, texts[-1]]
    rng.shuffle(pair)
    asked = rng.choice(PHRASES["order"]).format(*pair)
    return (Question(asked, _sentence(f"first, {first}."), asked),)


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


@dataclass(frozen=True)
class Story:
    """A story, and what requests and questions about it need.

    opening_ends  where its first sentences end
    hero          "a hedgehog"; empty in a story told by "I"
    theme         "a lost kite"
    clauses       what happened, one plain sentence each
    """

    text: str
    title: str
    opening_ends: tuple[int, ...]
    questions: tuple[Question, ...]
    words: tuple[str, ...]
    hero: str
    place: str
    theme: str
    clauses: tuple[str, ...]


def tell(
    rng: random.Random, words: tuple[str, ...] = (), brief: bool = False, hero: Being | None = None
) -> Story:
    """A story that uses all the words. A `brief` one tells only the core events.

    hero  the being that an opening from elsewhere has introduced
    """
    brief = brief or rng.random() < 0.18
    for _attempt in range(_TRIES):
        world = World(rng, _plot_for(words, rng, hero), words, hero)
        told_of = {world.hero.noun}  # in the opening; all other words follow in their order
        for _retold in range(5):
            teller = Teller(world, rng, brief)
            text = teller.tell([word for word in words if word not in told_of])
            missing = {word for word in words if not 0 <= first_use(text, word) < teller.lead}
            if not missing and not repeats(text):
                return _story(world, teller, text, words)
            told_of -= missing
    raise ValueError(f"No story has all of these words: {', '.join(words)}.")


def first_use(text: str, word: str) -> int:
    """Where the text first has the word; -1 for nowhere."""
    found = re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE)
    return found.start() if found else -1


def repeats(text: str) -> bool:
    words = re.findall(r"[\w']+", text.lower())
    runs = [tuple(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)]
    return len(set(runs)) < len(runs)


def _story(world: World, teller: Teller, text: str, words: tuple[str, ...]) -> Story:
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    open_ends = [end for end in ends if text.count('"', 0, end) % 2 == 0][:3]
    hero = world.hero
    called = hero.name if hero.noun in ("boy", "girl") else f"a {hero.noun}"
    return Story(
        text=text,
        title=_title(world, teller),
        opening_ends=tuple(open_ends),
        questions=questions(world, teller.told, text),
        words=words,
        hero="" if hero.pron == "I" else called,
        place=world.place.noun.word,
        theme=_plainly(world, teller, section(f"{world.plot.name}.theme").wordings),
        clauses=follow_ups(world, teller.told),
    )


def _title(world: World, teller: Teller) -> str:
    own, shared = (
        [each for each in section(name).wordings if not _says_i(world, each)]
        for name in (f"{world.plot.name}.title", "titles")
    )
    words = _plainly(world, teller, own or shared).split()
    return " ".join(
        word if i and word in _SMALL_WORDS else word[:1].upper() + word[1:]
        for i, word in enumerate(words)
    )


def _plainly(world: World, teller: Teller, wordings: list[Wording]) -> str:
    """One of the wordings, without pronouns."""
    pattern = teller.rng.choice(wordings).pattern
    plain = Teller(world, teller.rng, plain=True)
    return articles(plain.render(pattern, Event("", {}, True, frozenset())))


def _says_i(world: World, wording: Wording) -> bool:
    return "I" in world.tags and any(slot.role == "hero" for slot in slots(wording.pattern))


def _plot_for(words: tuple[str, ...], rng: random.Random, hero: Being | None) -> Plot:
    found = list(plots().values())
    if hero:
        mode = "human" if hero.human else "fable"
        ages = ("any", "child") if hero.age == "child" else ("any",)
        found = [p for p in found if mode in p.asks["modes"] and p.asks["ages"][0] in ages]
    elif being := Given(words).being():
        mode = "fable" if being.kind == "animal" else "human"
        found = [p for p in found if mode in p.asks["modes"]]
    if not words:
        return favoured(rng, found, hero.name) if hero else rng.choice(found)
    few = [favoured(rng, found, words[0]) for _ in range(2)]
    return max(few, key=lambda plot: sum(_is_about(plot, word) for word in words))


def _is_about(plot: Plot, word: str) -> bool:
    noun = lexicon().nouns.get(word)
    taken = " ".join(text.partition(": ")[2] for text in plot.takes.values())
    return noun is not None and noun.kind in (*plot.asks["things"], *taken.split())
