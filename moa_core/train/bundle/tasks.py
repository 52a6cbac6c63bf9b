"""Endless self-checking tasks: seeded, and split by construction into training and held out."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moa_core.train.bundle import one_liners, sums
from moa_core.train.bundle.words import LETTERS, PHRASES, WORDS, french, invented_word, spanish

HELD_OUT_PERCENT = 10
_LANGUAGES: dict[str, Callable[[int], str]] = {"Spanish": spanish, "French": french}
_COUNT = re.compile(r"is there (\d+) time")


@dataclass(frozen=True)
class Task:
    """A question whose reply can be checked; `answer` is the full reference reply."""

    kind: str
    prompt: str
    answer: str


def generate(kind: str, rng: random.Random, held_out: bool) -> Task:
    """A task of the kind: `held_out` ones are never among those for training."""
    while True:
        prompt, answer = _MAKERS[kind](rng)
        if is_held_out(prompt) == held_out:
            return Task(kind, prompt, answer)


def check(task: Task, reply: str) -> bool:
    """Whether a reply comes to the reference's final result; a bad reply is False, not an error."""
    if task.kind == "python":
        return one_liners.passes(task.answer, reply)
    result = _RESULTS[task.kind]
    return bool(result(reply) == result(task.answer))


def bucket(text: str) -> int:
    """A number from 0 to 99 that a text keeps for ever, to split by."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % 100


def is_held_out(text: str) -> bool:
    return bucket(text) < HELD_OUT_PERCENT


def _some_items(rng: random.Random) -> list[Any]:
    """Three to six different items: numbers, mostly below 100, or words."""
    count = rng.randint(3, 6)
    if rng.random() < 0.5:
        return rng.sample(WORDS, count)
    return rng.sample(range(100 if rng.random() < 0.8 else 1000), count)


def _written(items: list[Any]) -> str:
    return ", ".join(map(str, items))


def _reverse(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.2:
        word = rng.choice(WORDS) if rng.random() < 0.5 else invented_word(rng)
        asked = rng.choice(PHRASES["reverse_letters"])
        return asked.format("-".join(word)), "-".join(reversed(word))
    items = _some_items(rng)
    asked = rng.choice(PHRASES["reverse"])
    return asked.format(_written(items)), _written(items[::-1])


def _sort(rng: random.Random) -> tuple[str, str]:
    items = _some_items(rng)
    falling = rng.random() < 0.3
    if isinstance(items[0], int):
        order = "from largest to smallest" if falling else "from smallest to largest"
    else:
        order = "from Z to A" if falling else rng.choice(("from A to Z", "in alphabetical order"))
    asked = rng.choice(PHRASES["sort"])
    return asked.format(order, _written(items)), _written(sorted(items, reverse=falling))


def _letters(rng: random.Random) -> tuple[str, str]:
    word = rng.choice(WORDS) if rng.random() < 0.6 else invented_word(rng)
    letter = rng.choice(word) if rng.random() < 0.75 else rng.choice(LETTERS)
    asked = rng.choice(PHRASES["letters"])
    # The count runs along with the spelling, so that its end can be read off.
    spelled, count = [], 0
    for character in word:
        count += character == letter
        spelled.append(f"{character}{count}" if character == letter else character)
    times = "time" if count == 1 else "times"
    answer = f"{'-'.join(spelled)}. The letter {letter} is there {count} {times}."
    return asked.format(letter, word), answer


def _number(rng: random.Random) -> tuple[str, str]:
    language = rng.choice(tuple(_LANGUAGES))
    number = rng.randrange(rng.choice((100, 1000, 1000, 10_000)))
    words = _LANGUAGES[language](number)
    if rng.random() < 0.5:
        return rng.choice(PHRASES["number"]).format(number, language), words
    return rng.choice(PHRASES["digits"]).format(language, words), str(number)


def _items_in(reply: str) -> list[str]:
    return re.split(r"[,\s-]+", reply.strip().rstrip("."))


def _count_in(reply: str) -> str | None:
    found = _COUNT.findall(reply)
    return found[-1] if found else None


_MAKERS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "sum": sums.make,
    "reverse": _reverse,
    "sort": _sort,
    "letters": _letters,
    "number": _number,
    "python": one_liners.make,
}
_RESULTS: dict[str, Callable[[str], Any]] = {
    "sum": sums.result,
    "reverse": _items_in,
    "sort": _items_in,
    "letters": _count_in,
    "number": lambda reply: _items_in(reply.casefold()),
}
KINDS: tuple[str, ...] = tuple(_MAKERS)
