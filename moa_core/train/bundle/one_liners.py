"""One-line Python functions to write, and the check of a reply against the reference."""

from __future__ import annotations

import ast
import random
import tomllib
from importlib.resources import files

from moa_core.train.bundle.words import LETTERS, PHRASES, WORDS

_LONGEST = 400  # characters of a reply that is read
_TIGHT = ("comparison", "sum", "product", "power", "atom")  # how tightly an expression binds
_LINES: dict[str, list[list[str]]] = {
    name: [[part.strip(" ") for part in line.split("|")] for line in text.strip("\n").split("\n")]
    for name, text in tomllib.loads(
        (files(__package__) / "one_liners.toml").read_text("utf-8")
    ).items()
}


def make(rng: random.Random) -> tuple[str, str]:
    kind = rng.choice(("number", "text", "list"))
    if kind == "list":
        words, expression = _list(rng)
    else:
        words, expression = _steps(rng, kind)
        words = f"a {kind} x and {words}"
    return rng.choice(PHRASES["one_liner"]).format(words), f"def f(x): return {expression}"


def passes(answer: str, reply: str) -> bool:
    """Whether a reply is the same function, whatever its layout, quotes and argument's name.

    Nothing is run: a function that does the same in another way does not pass.
    """
    reply = reply.strip().removeprefix("```python").removeprefix("```").removesuffix("```").strip()
    return (found := _tree(reply)) is not None and found == _tree(answer)


def _tree(source: str) -> str | None:
    """A function f of one argument as a text that does not depend on the argument's name."""
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
    """One step or two: their words, and one expression with no needless brackets."""
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
    few, many = rng.randint(2, 12), rng.randint(1, 50)
    return {
        "few": few, "many": many, "digit": rng.randint(2, 9), "times": rng.randint(2, 5),
        "word": rng.choice(WORDS), "old": old, "new": new,
        "amount": rng.randint(1, 50), "factor": rng.randint(2, 12),
    }  # fmt: skip


def _list(rng: random.Random) -> tuple[str, str]:
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
