"""Chats about the small world: stories asked for, continued, read and talked about."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.world.entities import Being, drawn, lexicon
from moa_core.train.bundle.world.grammar import expand, sections
from moa_core.train.bundle.world.story import Question, Story, tell

_LONGEST = 440  # words of a story that is asked about
_CALLED = re.compile(r"\b(?:named|called) ([A-Z][a-z]+)")
_NAMED = {"he": "he", "animal_he": "he", "she": "she", "animal_she": "she"}  # lists of names
_PRONOUN = re.compile(r"\b(he|his|him|she|her)\b", re.IGNORECASE)


def chats(kind: str, rng: random.Random) -> Chat:
    """A chat of a kind: `story`, `words`, `continued`, `reading` or `talk`."""
    return _MAKERS[kind](rng)


def words_for(rng: random.Random) -> tuple[str, ...]:
    """Two to four words: a thing, a setting, a character, an adjective, sometimes a verb."""
    known = lexicon()
    kinds = ("things", "settings", "characters")
    nouns = [known.by_kind[rng.choice(drawn(kind))] for kind in kinds]
    words = [rng.choice(of).word for of in nouns]
    words.append(rng.choice(known.by_group[rng.choice(drawn("groups"))]).word)
    if rng.random() < 0.35:
        words.append(rng.choice(sorted(known.verbs)))
    if rng.random() < 0.2:
        words.append(rng.choice(known.by_kind[rng.choice(drawn("things"))]).word)
    rng.shuffle(words)
    found = tuple(dict.fromkeys(words[: rng.choice((2, 3, 3, 3, 4))]))
    return found if len(found) > 1 else words_for(rng)


def _story(rng: random.Random) -> Chat:
    story = tell(rng)
    titled = rng.random() < 0.15
    section = "ask.title" if titled else "ask.story" if story.hero else "ask.first"
    text = f"{story.title}\n\n{story.text}" if not titled and rng.random() < 0.12 else story.text
    return chat(_say(rng, section, story), text)


def _words(rng: random.Random) -> Chat:
    # A brief story leaves more of its text to the given words.
    story = tell(rng, words_for(rng), brief=rng.random() < 0.5)
    words = story.words
    listed = [", ".join(words), " ".join((*words[:-1], "and", words[-1]))]
    if len(words) > 2:
        listed += [f"{', '.join(words[:-1])} and {words[-1]}"] * 2
    return chat(_say(rng, "ask.words", story, listed=rng.choice(listed)), story.text)


def _continued(rng: random.Random) -> Chat:
    story = tell(rng)
    while not story.opening_ends:
        story = tell(rng)
    cut = rng.choice(story.opening_ends)
    opening, rest = story.text[:cut].strip(), story.text[cut:].strip()
    if rng.random() < 0.25:
        return chat(_say(rng, "ask.begins", story, opening=opening), story.text)
    return chat(_say(rng, "ask.continued", story, opening=opening), rest)


def opened(opening: str, rng: random.Random) -> Chat:
    """Go on with an opening from elsewhere: with its hero, and with a thing that it names."""
    hero = hero_of(opening, rng)
    story = tell(rng, thing_of(opening) if rng.random() < 0.7 else (), hero=hero)
    return chat(_say(rng, "ask.continued", story, opening=opening), story.text)


def _reading(rng: random.Random) -> Chat:
    """Several questions about one passage: passages are long, and only the answers are learnt."""
    story = _asked_about(rng)
    first, *more = rng.sample(story.questions, min(len(story.questions), rng.choice((1, 2, 3, 4))))
    turns = _passage(rng, story, first)
    for asked in more:
        turns += [_casual(rng, asked.question), asked.answer]
    return chat(*turns)


def _passage(rng: random.Random, story: Story, asked: Question) -> list[str]:
    request = _say(rng, "ask.reading", story, question=asked.question, passage=story.text)
    return [request, asked.answer]


def _talk(rng: random.Random) -> Chat:
    story = _asked_about(rng)
    given = rng.random() < 0.5
    asked = rng.sample(story.questions, min(len(story.questions), rng.choice((1, 2, 2, 3))))
    if given:
        turns = _passage(rng, story, asked.pop(0))
    else:
        turns = [_say(rng, "ask.story" if story.hero else "ask.first", story), story.text]
    for number, question in enumerate(asked):
        about = question.follow if number or given or rng.random() < 0.5 else question.question
        turns += [_casual(rng, about), question.answer]
    if len(turns) < 4 or (len(turns) < 6 and rng.random() < 0.15):
        short = " ".join(story.clauses[:2] + story.clauses[-1:]) or story.text
        turns += [_say(rng, "ask.short", story), short]
    return chat(*turns)


def _asked_about(rng: random.Random) -> Story:
    while True:
        story = tell(rng, brief=rng.random() < 0.5)
        if len(story.questions) > 2 and len(story.text.split()) <= _LONGEST:
            return story


def _say(rng: random.Random, section: str, story: Story, **texts: str) -> str:
    known = {**vars(story), **texts}
    out: list[str] = []
    pattern = rng.choice(sections()[section].wordings).pattern
    expand(pattern, rng, lambda slot, _: known[slot.role], out)
    text = "".join(out).replace("\\n", "\n").strip()
    if "passage" in texts:
        return text
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    return text if "opening" in texts else _casual(rng, text)


def _casual(rng: random.Random, text: str) -> str:
    """As people type: sometimes without capitals or the last mark."""
    if rng.random() < 0.12:
        text = text.lower()
    return text.rstrip(".?") if rng.random() < 0.12 else text


def hero_of(opening: str, rng: random.Random) -> Being | None:
    """The being that an opening is about; None where that is not clear."""
    names, nouns = lexicon().names, lexicon().nouns
    words = re.findall(r"[A-Za-z]+", opening)
    called = _CALLED.search(opening)
    kinds = [word for word in words if word in nouns and nouns[word].kind in ("animal", "person")]
    known = [word for word in words if any(word in names[key] for key in _NAMED)]
    name = called[1] if called else known[0] if known else ""
    if not (name or kinds):
        return None
    of_name = f"{re.escape(name)} the (\\w+)|\\b(\\w+) (?:named|called) {re.escape(name)}"
    found = re.search(of_name, opening) if name else None
    kind = next((one for one in (found.groups() if found else kinds[:1]) if one in nouns), "")
    pron = _pronoun(opening, name, kind)
    if not pron:
        return None
    human = not kind or nouns[kind].kind == "person"
    kind = kind or ("boy" if pron == "he" else "girl")
    trait = rng.choice(lexicon().by_group["trait"]).word
    being = Being(kind, pron, trait, name, name or f"the {kind}", human)
    being.age = "child" if kind in ("boy", "girl", "child") or not human else "grown"
    return being


def _pronoun(opening: str, name: str, kind: str) -> str:
    """As the opening says, or as the name or the kind does; empty where nothing does."""
    if found := _PRONOUN.search(opening):
        return "he" if found[1].lower() in ("he", "his", "him") else "she"
    lists = lexicon()
    by_name = [pron for key, pron in _NAMED.items() if name in lists.names[key]]
    by_kind = [pron for pron, key in (("he", "male"), ("she", "female")) if kind in lists.cast[key]]
    return next(iter(by_name + by_kind), "")


def thing_of(opening: str) -> tuple[str, ...]:
    """The last thing or place that an opening names, for the story to use."""
    nouns = lexicon().nouns
    named = [
        word for word in re.findall(r"[a-z]+", opening)
        if word in nouns and nouns[word].kind not in ("animal", "person")
    ]  # fmt: skip
    return tuple(named[-1:])


_MAKERS: dict[str, Callable[[random.Random], Chat]] = {
    "story": _story, "words": _words, "continued": _continued, "reading": _reading, "talk": _talk,
}  # fmt: skip
KINDS = tuple(_MAKERS)
