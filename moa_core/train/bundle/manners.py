"""Chats in which the model says what it is, what it does not know and what it can do.

A visitor greets, thanks, or asks for something outside the model's small world. The reply is short
and modest, states no fact of the real world, and mostly ends with an example to try.
"""

import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from moa_core.train.bundle import tasks
from moa_core.train.bundle.manners_data import Sort, is_held_out, styled, wordings
from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.words import WORDS

_SLOT = re.compile(r"\{(an? )?([a-z_]+)(\d?)\}")
_TOPIC = re.compile(r"\[([^]]*)\]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+|[\"“]\s*)$")
_OWN_WORLD = re.compile(r"\b(?:model|program|stor(?:y|ies)|tales?|storyteller)\b")
_CONTRAST = re.compile(
    r"\b(?:though|but|But|instead|more my size|other hand|better at|fits me|smaller|Maybe)\b"
)
_AN = re.compile(r"(?!uni|us|eu|one)[aeiou]", re.IGNORECASE)
_SWAPPED = {"my": "your", "My": "your", "our": "your", "me": "you", "your": "my"}
_LONGEST_EXAMPLE = 130  # characters: a longer one would be most of the reply
_ANSWERED = ("sum", "sort", "reverse", "letters", "number", "python", "reading")
_PLANS = {"single": 72, "greeted": 7, "taken up": 9, "insisted": 4, "two": 5, "after a task": 3}
_MADE: Mapping[str, Callable[[random.Random], str]] = {
    "three": lambda rng: "{}, {} and {}".format(*rng.sample(WORDS, 3)),
    "few": lambda rng: str(rng.randint(3, 99)),
    "small": lambda rng: str(rng.randint(2, 15)),
    "big": lambda rng: str(rng.randint(1000, 10 ** rng.randint(4, 7))),
    "year": lambda rng: str(rng.randint(1100, 2030)),
    "hour": lambda rng: str(rng.randint(1, 12)),
    "words_long": lambda rng: str(50 * rng.randint(6, 60)),
    "mash": lambda rng: "".join(rng.choices("asdfghjklqwertyuiopzxcvbnm", k=rng.randint(3, 12))),
}


class _Offer(NamedTuple):
    """An example to try, and its answer if it is known."""

    prompt: str
    answer: str | None = None


class _Said(NamedTuple):
    """A message and its reply, with the example that the reply offers."""

    user: str
    reply: str
    offer: _Offer | None


def chats(rng: random.Random, held_out: bool) -> Chat:
    """A chat of one to three exchanges. Held-out chats have templates of their own."""
    talk = _Talk(rng, held_out)
    match rng.choices(list(_PLANS), list(_PLANS.values()))[0]:
        case "greeted":
            turns = [*talk.turns("greet", "how"), *talk.turns(first=False), *talk.parting(0.4)]
        case "taken up":  # the user accepts the example, and the model does it
            said = talk.exchange(answered=True)
            assert said.offer is not None and said.offer.answer is not None
            wanted = talk.yes() if rng.random() < 0.6 else said.offer.prompt
            turns = [said.user, said.reply, wanted, said.offer.answer, *talk.parting(0.3)]
        case "insisted":
            refused = talk.turns("facts", "writing", "code", "maths", "act")
            turns = [*refused, *talk.turns("insisting")]
        case "two":
            turns = [*talk.turns(), *talk.turns(first=False), *talk.parting(0.3)]
        case "after a task":
            task = talk.example(rng.choice(_ANSWERED))
            assert task.answer is not None
            turns = [task.prompt, task.answer, *talk.turns(first=False)]
        case _:
            turns = talk.turns()
    return chat(*turns)


def claims(reply: str, prompt: str) -> list[str]:
    """Names and numbers in a reply that are not from the prompt, the example or our wordings."""
    known = _own_words() | {_bare(word) for word in _WORD.findall(prompt)}
    text = _without_example(reply)
    found = []
    for match in _WORD.finditer(text):
        word = match.group()
        if word.isdigit() or word[0].isupper():
            starts = _SENTENCE_START.search(text[: match.start()])
            # At the start of a sentence, a word that our replies use is not a name.
            own = {word, word.lower()} if starts else {word}
            if not own & known and _bare(word) not in known:
                found.append(word)
    return found


def _bare(word: str) -> str:
    return re.sub(r"['’]s$", "", word).casefold()


def _without_example(reply: str) -> str:
    leads = "|".join(re.escape(lead) for lead in wordings().rules["lead"])
    return re.split(rf"(?:{leads})\s", reply, maxsplit=1)[0]


@cache
def _own_words() -> frozenset[str]:
    """The words of our replies; only names keep their capital."""
    data = wordings()
    groups = [sort.reply for sort in data.sorts.values()] + [*data.middles.values()]
    groups += [data.rules[name] for name in ("sorry", "know_not", "because", "self")]
    words: set[str] = set()
    for line in (line for group in groups for line in group):
        text = _SLOT.sub("", line)
        for match in _WORD.finditer(text):
            word = match.group()
            words.add(word.lower() if _SENTENCE_START.search(text[: match.start()]) else word)
    return frozenset(words | {"I", "Spanish", "French", "English", "Python"})


class _Talk:
    def __init__(self, rng: random.Random, held_out: bool) -> None:
        self.rng, self.held_out, self.words = rng, held_out, wordings()

    def exchange(self, *names: str, answered: bool = False, first: bool = True) -> _Said:
        """A message and its reply. names: the sorts to choose from, by default all."""
        rng = self.rng
        sorts = [
            sort
            for name, sort in self.words.sorts.items()
            if sort.user[self.held_out]
            and (first or not sort.first)
            and (not names or name in names)
            and (not answered or set(sort.offers) & set(_ANSWERED))
        ]
        sort = rng.choices(sorts, None if names else [sort.weight for sort in sorts])[0]
        bound: dict[str, str] = {}
        template = rng.choice(sort.user[self.held_out])
        said = self.fill(template, bound, self.words.things[self.held_out])
        said = self._dressed(said, template) if sort.dressed else said
        said = styled(said, rng, " ".join(bound.values()))
        topic = _TOPIC.search(said)
        if topic and said != said.upper():
            bound["topic"] = _swapped(topic[1])
        kind, offer = self._offer(sort, bound, answered)
        reply = self._reply(sort, bound, kind, offer)
        return _Said(_TOPIC.sub(r"\1", said), reply, offer)

    def turns(self, *names: str, first: bool = True) -> list[str]:
        said = self.exchange(*names, first=first)
        return [said.user, said.reply]

    def parting(self, share: float) -> list[str]:
        return self.turns("thanks", "bye") if self.rng.random() < share else []

    def yes(self) -> str:
        lines = self.words.rules["yes"]
        return self.rng.choice([line for line in lines if is_held_out(line) == self.held_out])

    def example(self, kind: str) -> _Offer:
        while True:
            if kind in self.words.offers:
                line = self.fill(self.rng.choice(self.words.offers[kind]), {})
                prompt, _, answer = line.partition(" | ")
                if not answer or is_held_out(prompt) == self.held_out:
                    return _Offer(prompt, answer or None)
            else:
                task = tasks.generate(kind, self.rng, self.held_out)
                if _offerable(task):
                    return _Offer(task.prompt, task.answer)

    def fill(
        self, text: str, bound: dict[str, str], things: Mapping[str, tuple[str, ...]] | None = None
    ) -> str:
        """A text with its slots filled. `bound` collects the values."""

        def filled(match: re.Match[str]) -> str:
            article, name, number = match.groups()
            if (key := name + number) not in bound:
                bound[key] = self._pick(name, bound, things)
            value = bound[key]
            return f"{'an' if _AN.match(value) else 'a'} {value}" if article else value

        return _SLOT.sub(filled, text)

    def _pick(
        self, name: str, bound: dict[str, str], things: Mapping[str, tuple[str, ...]] | None
    ) -> str:
        if name in _MADE:
            return _MADE[name](self.rng)
        lines = things[name] if things and name in things else self.words.rules[name]
        fresh = [line for line in lines if line not in bound.values()]
        text = self.rng.choice(fresh or lines)
        return self.fill("" if text == "~" else text, {**bound}, things)

    def _dressed(self, said: str, template: str) -> str:
        """The message, sometimes with a polite word before it or a remark after it."""
        rng, rules = self.rng, self.words.rules
        first = template.split()[0]
        kind = next((k for k in ("question", "request") if first in rules[f"{k}s"]), None)
        if kind is None:
            return said
        if rng.random() < 0.15:
            before = rng.choice(rules[f"before_{kind}"])
            if not before.endswith((".", "!", "?")):
                said = said[0].lower() + said[1:]
            if before.split()[-1] == "you" and before.split()[-2].lower() in ("can", "could"):
                said = re.sub(r"\.$", "?", said)
            said = f"{before} {said}"
        if rng.random() < 0.1:
            said = f"{said} {rng.choice(rules[f'after_{kind}'])}"
        return said

    def _offer(
        self, sort: Sort, bound: dict[str, str], answered: bool
    ) -> tuple[str, _Offer | None]:
        """The kind of an example that fits the message, and the example."""
        if not answered and self.rng.random() < 0.08:
            return "none", None
        topical = _usable(sort.topical, bound)
        if topical and not answered and self.rng.random() < 0.65:
            return "story", _Offer(self.fill(self.rng.choice(topical), {**bound}))
        kinds = [kind for kind in sort.offers if kind in _ANSWERED or not answered]
        kind = self.rng.choice(kinds)
        return kind, None if kind == "none" else self.example(kind)

    def _reply(self, sort: Sort, bound: dict[str, str], kind: str, offer: _Offer | None) -> str:
        rng, rules = self.rng, self.words.rules
        about = [line for line in _usable(sort.reply, bound) if _needs(line)]
        plain = [line for line in sort.reply if not _needs(line)] or about
        lines = about if about and rng.random() < 0.65 else plain
        opening = self.fill(rng.choice(lines), {**bound})
        parts = [opening]
        if offer:
            if not _OWN_WORLD.search(opening) and rng.random() < 0.4:
                parts.append(rng.choice(rules["self"]))
            if rng.random() < sort.middle:
                parts.append(self._middle(kind, sort.warm))
            parts.append(f"{rng.choice(rules['lead'])} {offer.prompt}")
        return " ".join(_capitalised(part) for part in parts)

    def _middle(self, kind: str, warm: bool) -> str:
        lines = self.words.middles["any" if self.rng.random() < 0.2 else kind]
        return self.rng.choice([line for line in lines if not (warm and _CONTRAST.search(line))])


def _offerable(task: tasks.Task) -> bool:
    """Whether a task is short and spells no invented word, which might be rude."""
    spelled = re.search(r"([a-z-]+)[.?]?$", task.prompt) if task.kind == "letters" else None
    spelled = spelled or re.search(r": ([a-z](?:-[a-z])+)$", task.prompt)
    if spelled and spelled[1].replace("-", "") not in WORDS:
        return False
    return len(task.prompt) <= _LONGEST_EXAMPLE


def _swapped(topic: str) -> str:
    return " ".join(_SWAPPED.get(word, word) for word in topic.split())


def _capitalised(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text[:1].upper() + text[1:]


@cache
def _needs(line: str) -> set[str]:
    """The slots of a line that only the message can fill: the topic or a thing."""
    given = {*wordings().things[1], "topic"}
    return {name for _, name, _ in _SLOT.findall(line) if name in given}


def _usable(lines: tuple[str, ...], bound: dict[str, str]) -> list[str]:
    return [line for line in lines if _needs(line) <= bound.keys()]
