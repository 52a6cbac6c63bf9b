"""One-line Python functions to write, and the check of a reply by running it."""

import random
from typing import Any, NamedTuple

from moa_core.train.bundle.safe_python import Refused, SafeFunction
from moa_core.train.bundle.words import LETTERS, WORDS

# What a function is tried on, by the words for its argument in the prompt. The numbers and the
# lists take in every bound that a prompt can name, so that "> 5" and ">= 5" differ somewhere.
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "a number x": (*range(-25, 60), 100, 997),
    "a list x": ([], [7], [5, 1, 4, 2, 2, 9], list(range(-5, 45)), list(range(44, -3, -3))),
    "a text x": ("", "a", "Banana split", "hello world", LETTERS * 2, LETTERS.upper(), "A zoo, 12"),
}
_PHRASINGS = (
    "Write a one-line Python function f(x) that takes {}.",
    "Write f(x), a Python function in one line. It takes {}.",
    "I need a Python function f(x) in one line that takes {}.",
)
_LOWEST, _SUM, _PRODUCT, _POWER, _ATOM = range(5)  # how tightly an expression binds


class _Step(NamedTuple):
    """One change to a value: in words, in Python, and how tightly both sides must bind."""

    words: str
    template: str
    binds: int = _ATOM
    needs: int = _LOWEST


def make(rng: random.Random) -> tuple[str, str]:
    """A function described in words, and the line of Python."""
    words, expression = rng.choice((_number, _list, _text))(rng)
    return rng.choice(_PHRASINGS).format(words), f"def f(x): return {expression}"


def passes(prompt: str, answer: str, reply: str) -> bool:
    """Whether `reply` does the same as `answer` on every argument tried."""
    arguments = next(tried for words, tried in _ARGUMENTS.items() if words in prompt)
    try:
        wanted, given = SafeFunction(answer), SafeFunction(_unfenced(reply))
        # repr tells True from 1, which == does not.
        return all(repr(wanted(value)) == repr(given(value)) for value in arguments)
    except Refused:
        return False


def _unfenced(reply: str) -> str:
    return reply.strip().removeprefix("```python").removeprefix("```").removesuffix("```").strip()


def _applied(steps: list[_Step]) -> tuple[str, str]:
    """Steps one after the other: their words, and one expression with no needless brackets."""
    expression, binds = "x", _ATOM
    for step in steps:
        inner = f"({expression})" if binds < step.needs else expression
        expression, binds = step.template.format(inner), step.binds
    return ", then ".join(step.words for step in steps), expression


def _number_step(rng: random.Random) -> _Step:
    few, many = rng.randint(2, 12), rng.randint(1, 50)
    return rng.choice((
        _Step(f"adds {many}", f"{{}} + {many}", _SUM, _SUM),
        _Step(f"takes away {many}", f"{{}} - {many}", _SUM, _SUM),
        _Step(f"multiplies by {few}", f"{{}} * {few}", _PRODUCT, _PRODUCT),
        _Step(f"divides by {few} rounding down", f"{{}} // {few}", _PRODUCT, _PRODUCT),
        _Step(f"takes the remainder of dividing by {few}", f"{{}} % {few}", _PRODUCT, _PRODUCT),
        _Step("squares it", "{} ** 2", _POWER, _ATOM),
        _Step("makes it positive", "abs({})"),
        _Step(f"raises it to at least {many}", f"max({{}}, {many})"),
        _Step(f"lowers it to at most {many}", f"min({{}}, {many})"),
    ))  # fmt: skip


def _number_test(rng: random.Random) -> _Step:
    few, many = rng.randint(2, 12), rng.randint(1, 50)
    return rng.choice((
        _Step("tells whether it is even", "{} % 2 == 0", _LOWEST, _PRODUCT),
        _Step(f"tells whether it can be divided by {few}", f"{{}} % {few} == 0", 0, _PRODUCT),
        _Step(f"tells whether it is greater than {many}", f"{{}} > {many}", 0, _SUM),
        _Step(f"tells whether it is less than {many}", f"{{}} < {many}", 0, _SUM),
    ))  # fmt: skip


def _number(rng: random.Random) -> tuple[str, str]:
    steps = [_number_step(rng) for _ in range(rng.choice((1, 2, 2)))]
    if rng.random() < 0.3:
        steps[-1] = _number_test(rng)
    words, expression = _applied(steps)
    return f"a number x and {words}", expression


def _text_step(rng: random.Random) -> _Step:
    count, word = rng.randint(2, 9), rng.choice(WORDS)
    times = rng.randint(2, 5)
    old, new = rng.sample(LETTERS, 2)
    return rng.choice((
        _Step("turns it into capital letters", "{}.upper()", _ATOM, _ATOM),
        _Step("turns it into small letters", "{}.lower()", _ATOM, _ATOM),
        _Step("turns it around", "{}[::-1]", _ATOM, _ATOM),
        _Step(f"keeps the first {count} letters", f"{{}}[:{count}]", _ATOM, _ATOM),
        _Step(f"keeps the last {count} letters", f"{{}}[-{count}:]", _ATOM, _ATOM),
        _Step(f"leaves out the first {count} letters", f"{{}}[{count}:]", _ATOM, _ATOM),
        _Step(f"repeats it {times} times", f"{{}} * {times}", _PRODUCT, _PRODUCT),
        _Step(f"adds {word} at the end", f"{{}} + '{word}'", _SUM, _SUM),
        _Step(f"adds {word} at the start", f"'{word}' + {{}}", _SUM, _PRODUCT),
        _Step(f"replaces {old} with {new}", f"{{}}.replace('{old}', '{new}')", _ATOM, _ATOM),
    ))  # fmt: skip


def _text_end(rng: random.Random) -> _Step:
    letter = rng.choice(LETTERS)
    return rng.choice((
        _Step("gives its length", "len({})"),
        _Step(f"counts the letter {letter}", f"{{}}.count('{letter}')", _ATOM, _ATOM),
        _Step(f"tells whether it starts with {letter}", f"{{}}.startswith('{letter}')", 4, _ATOM),
        _Step(f"tells whether {letter} is in it", f"'{letter}' in {{}}", _LOWEST, _SUM),
    ))  # fmt: skip


def _text(rng: random.Random) -> tuple[str, str]:
    steps = [_text_step(rng) for _ in range(rng.choice((1, 2, 2)))]
    if rng.random() < 0.3:
        steps[-1] = _text_end(rng)
    words, expression = _applied(steps)
    return f"a text x and {words}", expression


def _list(rng: random.Random) -> tuple[str, str]:
    bound, few = rng.randint(1, 40), rng.randint(2, 12)
    which, test = rng.choice((
        ("items", ""),
        (f"items greater than {bound}", f" if i > {bound}"),
        (f"items less than {bound}", f" if i < {bound}"),
        ("even items", " if i % 2 == 0"),
        ("odd items", " if i % 2 == 1"),
        (f"items that can be divided by {few}", f" if i % {few} == 0"),
    ))  # fmt: skip
    amount, factor = rng.randint(1, 50), rng.randint(2, 12)
    changed, item = rng.choice((
        ("", "i"),
        (f", each plus {amount}", f"i + {amount}"),
        (f", each minus {amount}", f"i - {amount}"),
        (f", each times {factor}", f"i * {factor}"),
        (", each squared", "i ** 2"),
    ))  # fmt: skip
    gathered, call = rng.choice((
        ("all", "[{}]"),
        ("the sum of all", "sum({})"),
        ("the number of", "len([{}])"),
        ("in rising order all", "sorted({})"),
        ("the first {n} of all", "[{}][:{n}]"),
    ))  # fmt: skip
    gathered, call = (part.replace("{n}", str(few)) for part in (gathered, call))
    inner = f"{item} for i in x{test}"
    if call == "len([{}])":
        changed, inner = "", f"i for i in x{test}"
    expression = call.replace("{}", inner)
    for needless, plain in (("[i for i in x]", "x"), ("(i for i in x)", "(x)")):
        expression = expression.replace(needless, plain)
    return f"a list x and returns {gathered} {which}{changed}", expression
