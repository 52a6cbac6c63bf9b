"""Chats about the small world: stories asked for, continued, read and talked about."""

import random
import re
from collections.abc import Callable

from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.world.draw import words_for
from moa_core.train.bundle.world.grammar import Pattern, Slot, expand, sections
from moa_core.train.bundle.world.story import Story, tell

_MAX_PASSAGE = 220  # words


def chats(kind: str, rng: random.Random) -> Chat:
    """A chat of the kind: `story`, `words`, `continued`, `reading` or `talk`."""
    return _MAKERS[kind](rng)


def _story(rng: random.Random) -> Chat:
    story = tell(rng)
    titled = rng.random() < 0.15
    section = "ask.title" if titled else "ask.story" if story.hero else "ask.first"
    request = _say(rng, section, story)
    text = f"{story.title}\n\n{story.text}" if not titled and rng.random() < 0.12 else story.text
    return chat(request, text)


def _words(rng: random.Random) -> Chat:
    story = tell(rng, words_for(rng))
    return chat(_say(rng, "ask.words", story, listed=_listed(story.words, rng)), story.text)


def _continued(rng: random.Random) -> Chat:
    story = tell(rng)
    while not story.opening_ends:
        story = tell(rng)
    cut = rng.choice(story.opening_ends)
    opening, rest = story.text[:cut].strip(), story.text[cut:].strip()
    if rng.random() < 0.25:
        return chat(_say(rng, "ask.begins", story, opening=opening), story.text)
    return chat(_say(rng, "ask.continued", story, opening=opening), rest)


def _reading(rng: random.Random) -> Chat:
    story = _asked_about(rng)
    question = rng.choice(story.questions)
    request = _say(rng, "ask.reading", story, question=question.question, passage=story.text)
    return chat(request, question.answer)


def _talk(rng: random.Random) -> Chat:
    story = _asked_about(rng)
    given = rng.random() < 0.5
    asked = rng.sample(story.questions, min(len(story.questions), rng.choice((1, 2, 2, 3))))
    turns: list[str] = []
    if given:
        request = _say(
            rng, "ask.reading", story, question=asked[0].question, passage=story.text
        )  # fmt: skip
        turns += [request, asked[0].answer]
        asked = asked[1:]
    else:
        turns += [_say(rng, "ask.story", story), story.text]
    for number, question in enumerate(asked):
        about = question.follow if number or given or rng.random() < 0.5 else question.question
        turns += [_casual(rng, about), question.answer]
        if question.then and rng.random() < 0.3:
            turns += [_say(rng, "ask.then", story), question.then]
    if len(turns) < 4 or (len(turns) < 6 and rng.random() < 0.15):
        turns += [_say(rng, "ask.short", story), _short(story)]
    return chat(*turns)


def _asked_about(rng: random.Random) -> Story:
    while True:
        story = tell(rng, brief=rng.random() < 0.5)
        if (
            story.hero != "I"
            and len(story.questions) > 2
            and len(story.text.split()) <= _MAX_PASSAGE * 2
        ):
            return story


def _short(story: Story) -> str:
    return " ".join(story.clauses[:2] + story.clauses[-1:]) or story.text


def _listed(words: tuple[str, ...], rng: random.Random) -> str:
    joined = rng.choice((", ".join(words), " ".join((*words[:-1], "and", words[-1]))))
    return joined if len(words) < 3 or rng.random() < 0.5 else (
        f"{', '.join(words[:-1])} and {words[-1]}"
    )  # fmt: skip


def _say(rng: random.Random, section: str, story: Story, **texts: str) -> str:
    known = {
        "theme": story.theme,
        "hero": story.hero,
        "place": story.place,
        "title": story.title,
        **texts,
    }
    known["listed"] = texts.get("listed", "")

    def fill(slot: Slot, out: list[str]) -> str:
        return known[slot.role]

    out: list[str] = []
    pattern: Pattern = rng.choice(sections()[section].wordings).pattern
    expand(pattern, rng, fill, out)
    text = "".join(out).replace("\\n", "\n").strip()
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text) if not texts.get("passage") else text
    return text if "passage" in texts or "opening" in texts else _casual(rng, text)


def _casual(rng: random.Random, text: str) -> str:
    """As people type: now and then without capitals or the last mark."""
    if rng.random() < 0.12:
        text = text.lower()
    return text.rstrip(".?") if rng.random() < 0.12 else text


_MAKERS: dict[str, Callable[[random.Random], Chat]] = {
    "story": _story,
    "words": _words,
    "continued": _continued,
    "reading": _reading,
    "talk": _talk,
}
