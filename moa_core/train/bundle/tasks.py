"""Endless tasks that check their own answers, split into training and held out by a hash."""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moa_core.train.bundle.words import (
    HOLDERS,
    LETTERS,
    PEOPLE,
    PHRASES,
    THINGS,
    WORDS,
    french,
    invented_word,
    read,
    spanish,
)  # fmt: skip

HELD_OUT_PERCENT = 10
_LANGUAGES: dict[str, Callable[[int], str]] = {"Spanish": spanish, "French": french}
_SUM = re.compile(r"The answer is (-?\d[\d,]*(?:\.\d+)?)")
_COUNT = re.compile(r"is there (\d+) time")
_LONGEST = 400  # characters of a reply that is read
_SIGNS = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__}
_TIGHT = ("comparison", "sum", "product", "power", "atom")  # how tightly an expression binds
_LINES: dict[str, list[list[str]]] = {
    name: [[part.strip(" ") for part in line.split("|")] for line in text.strip("\n").split("\n")]
    for name, text in read("tables/one_liners.toml").items()
}


@dataclass(frozen=True)
class Task:
    """A question whose reply can be checked; `answer` is the full reference reply."""

    kind: str
    prompt: str
    answer: str


def generate(kind: str, rng: random.Random, held_out: bool) -> Task:
    """A task of a kind. Held-out tasks never occur in training."""
    while True:
        prompt, answer = _MAKERS[kind](rng)
        if is_held_out(prompt) == held_out:
            return Task(kind, prompt, answer)


def check(task: Task, reply: str) -> bool:
    """Whether a reply has the reference's final result. False for any nonsense."""
    if task.kind == "python":
        return _same_function(task.answer, reply)
    result = _RESULTS[task.kind]
    return bool(result(reply) == result(task.answer))


def bucket(text: str) -> int:
    """A text's hash, from 0 to 99, which decides the split."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % 100


def is_held_out(text: str) -> bool:
    return bucket(text) < HELD_OUT_PERCENT


def _some_items(rng: random.Random) -> list[Any]:
    """Three to six different words, or numbers that are mostly below 100."""
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
    # The spelling counts along, so that the answer can be read off.
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


def _sum(rng: random.Random) -> tuple[str, str]:
    return rng.choice((_bare_sum, _told_sum, _told_sum, _groups, _groups_and_more))(rng)


def _worked(start: int, *steps: tuple[str, int]) -> str:
    """One equation for each step, then the answer."""
    value, lines = start, []
    for sign, amount in steps:
        before, value = value, _SIGNS[sign](value, amount)
        lines.append(f"{before} {sign} {amount} = {value}.")
    return " ".join((*lines, f"The answer is {value}."))


def _changes(rng: random.Random, value: int, count: int) -> list[tuple[str, int]]:
    """Random gains and losses. The total stays at or above zero."""
    steps = []
    for _ in range(count):
        sign = rng.choice("+-") if value > 1 else "+"
        amount = rng.randint(1, 60 if sign == "+" else min(value, 60))
        value = _SIGNS[sign](value, amount)
        steps.append((sign, amount))
    return steps


def _bare_sum(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.25:
        start, steps = rng.randint(2, 12), [("x", rng.randint(2, 12))]
    else:
        start = rng.randint(2, 99)
        steps = _changes(rng, start, rng.choice((1, 1, 2)))
    text = " ".join((str(start), *(f"{sign} {amount}" for sign, amount in steps)))
    return rng.choice(PHRASES["sum"]).format(text), _worked(start, *steps)


def _told_sum(rng: random.Random) -> tuple[str, str]:
    (name, pronoun), things = rng.choice(PEOPLE), rng.choice(THINGS)
    start = rng.randint(2, 99)
    steps = _changes(rng, start, rng.choice((1, 2, 2)))
    told = [_changed(rng, step) for step in steps]
    then = rng.choice(PHRASES["sum_goes_on"]).format(pronoun=pronoun)
    begin = rng.choice(PHRASES["sum_begins"])
    last = "How many {things} are left?" if steps[-1][0] == "-" else "How many {things} is that?"
    end = rng.choice([*PHRASES["sum_ends"], last]).format(things=things, name=name, pronoun=pronoun)
    prompt = f"{begin.format(name, start, things)} {pronoun.title()} {then.join(told)}. {end}"
    return prompt, _worked(start, *steps)


def _changed(rng: random.Random, step: tuple[str, int]) -> str:
    return rng.choice(PHRASES["gain" if step[0] == "+" else "lose"]).format(step[1])


def _groups(rng: random.Random) -> tuple[str, str]:
    things, holders = rng.choice(THINGS), rng.choice(HOLDERS)
    name, _ = rng.choice(PEOPLE)
    count, each = rng.randint(2, 12), rng.randint(2, 12)
    facts = {"name": name, "count": count, "holders": holders, "each": each, "things": things}
    prompt = rng.choice(PHRASES["groups"]).format(**facts)
    return prompt, _worked(count, ("x", each))


def _groups_and_more(rng: random.Random) -> tuple[str, str]:
    (name, pronoun), things, holders = rng.choice(PEOPLE), rng.choice(THINGS), rng.choice(HOLDERS)
    count, each = rng.randint(2, 12), rng.randint(2, 12)
    step = _changes(rng, count * each, 1)[0]
    change = _changed(rng, step)
    then = rng.choice((f"Then {pronoun}", "Later " + pronoun, pronoun.title()))
    prompt = (
        f"{name} has {count} {holders} of {each} {things}. {then} {change}. "
        f"How many {things} does {name} have now?"
    )
    return prompt, _worked(count, ("x", each), step)


def _python(rng: random.Random) -> tuple[str, str]:
    kind = rng.choice(("number", "text", "list"))
    if kind == "list":
        words, expression = _list_function(rng)
    else:
        words, expression = _steps(rng, kind)
        words = f"a {kind} x and {words}"
    return rng.choice(PHRASES["one_liner"]).format(words), f"def f(x): return {expression}"


def _same_function(answer: str, reply: str) -> bool:
    """Whether a reply is the same function, apart from layout, quotes and the argument's name.

    Nothing is run, so a function that does the same in another way does not pass.
    """
    reply = reply.strip().removeprefix("```python").removeprefix("```").removesuffix("```").strip()
    return (found := _syntax(reply)) is not None and found == _syntax(answer)


def _syntax(source: str) -> str | None:
    """The syntax tree of a function f(x), with its argument renamed; None for anything else."""
    try:
        body = ast.parse(source[:_LONGEST]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match body:
        case [ast.FunctionDef(name="f", args=ast.arguments(args=[ast.arg(arg=name)]))]:
            for node in ast.walk(body[0]):
                if isinstance(node, ast.Name) and node.id == name:
                    node.id = "_"
                elif isinstance(node, ast.arg):
                    node.arg = "_"
            return ast.dump(body[0])
    return None


def _steps(rng: random.Random, kind: str) -> tuple[str, str]:
    """One step or two: their words, and their expression without needless brackets."""
    chosen = [rng.choice(_LINES[kind]) for _ in range(rng.choice((1, 2, 2)))]
    if rng.random() < 0.3:
        chosen[-1] = rng.choice(_LINES[f"{kind}_end"])
    said, expression, bound = [], "x", "atom"
    for words, template, binds, needs in chosen:
        drawn = _drawn(rng)
        inner = f"({expression})" if _TIGHT.index(bound) < _TIGHT.index(needs) else expression
        said.append(words.format(**drawn))
        expression, bound = template.format(inner, **drawn), binds
    return ", then ".join(said), expression


def _drawn(rng: random.Random) -> dict[str, str | int]:
    old, new = rng.sample(LETTERS, 2)
    return {
        "few": rng.randint(2, 12), "many": rng.randint(1, 50), "digit": rng.randint(2, 9),
        "times": rng.randint(2, 5), "word": rng.choice(WORDS), "old": old, "new": new,
        "amount": rng.randint(1, 50), "factor": rng.randint(2, 12),
    }  # fmt: skip


def _list_function(rng: random.Random) -> tuple[str, str]:
    which, test = rng.choice(_LINES["items"])
    changed, item = rng.choice(_LINES["changes"])
    gathered, call = rng.choice(_LINES["gathered"])
    if gathered == "the number of":
        changed, item = "", "i"
    drawn = _drawn(rng) | {"many": rng.randint(1, 40)}
    expression = call.format(f"{item} for i in x {test}".format(**drawn).strip(), **drawn)
    for needless, plain in (("[i for i in x]", "x"), ("(i for i in x)", "(x)")):
        expression = expression.replace(needless, plain)
    return f"a list x and returns {gathered} {which}{changed}".format(**drawn), expression


def _items_in(reply: str) -> list[str]:
    return re.split(r"[,\s-]+", reply.strip().rstrip("."))


_MAKERS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "sum": _sum, "reverse": _reverse, "sort": _sort,
    "letters": _letters, "number": _number, "python": _python,
}  # fmt: skip
_RESULTS: dict[str, Callable[[str], Any]] = {
    "sum": lambda reply: [found.replace(",", "") for found in _SUM.findall(reply)[-1:]],
    "reverse": _items_in,
    "sort": _items_in,
    "letters": lambda reply: _COUNT.findall(reply)[-1:],
    "number": lambda reply: _items_in(reply.casefold()),
}
KINDS: tuple[str, ...] = tuple(_MAKERS)
