"""Wordings: plain text with choices `[this|that]`, slots `{role.form}` and guards `@tag,!tag`.

A file of wordings has sections headed `# name`. A line is one wording; `= ` begins a plain clause
that sums the event up, and `? kind: question -> answer` asks about it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

_TOKEN = re.compile(r"[\[\]|]|\{[^}]*\}|[^\[\]|{]+")


class Slot(NamedTuple):
    """A place for an entity in some form, or for a wording of a section (`~name`)."""

    role: str
    form: str
    capital: bool


class Choice(NamedTuple):
    """Alternatives: one of them is drawn."""

    options: tuple[Pattern, ...]


Pattern = tuple[str | Slot | Choice, ...]
Fill = Callable[[Slot, list[str]], str]


class Wording(NamedTuple):
    """A text with a guard: the tags that the world must have and must lack for it."""

    text: str
    pattern: Pattern
    needs: frozenset[str]
    bars: frozenset[str]

    def fits(self, tags: Collection[str]) -> bool:
        return self.needs.issubset(tags) and self.bars.isdisjoint(tags)


class Ask(NamedTuple):
    """A question about an event, with its answer."""

    kind: str
    question: Pattern
    answer: Pattern


@dataclass
class Section:
    """All that can be said of one kind of event."""

    wordings: list[Wording] = field(default_factory=list)
    clauses: list[Pattern] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)

    def add(self, line: str) -> None:
        if line.startswith("= "):
            self.clauses.append(parse(line[2:]))
        elif line.startswith("? "):
            kind, _, rest = line[2:].partition(": ")
            question, arrow, answer = rest.partition(" -> ")
            if not arrow:
                raise ValueError(f"No answer: {line}")
            self.asks.append(Ask(kind, parse(question), parse(answer)))
        else:
            self.wordings.append(guarded(line))


def data() -> Traversable:
    """The package's folder."""
    return files(__package__)


@cache
def sections() -> dict[str, Section]:
    """Every section of every file of wordings."""
    found: dict[str, Section] = {}
    for file in sorted((data() / "wordings").iterdir(), key=lambda file: file.name):
        section = Section()
        for line in filter(None, map(str.strip, file.read_text("utf-8").splitlines())):
            if line.startswith("# "):
                section = found.setdefault(line[2:], Section())
            else:
                section.add(line)
    return found


def section(name: str) -> Section:
    """The wordings of an event: its plot's own, or those that all plots share."""
    found = sections()
    return found.get(name) or found.get(name.rpartition(".")[2]) or Section()


def guarded(line: str) -> Wording:
    """A line with a guard before it, or none."""
    tags, text = line[1:].split(" ", 1) if line.startswith("@") else ("", line)
    each = tags.split(",") if tags else []
    bars = frozenset(tag[1:] for tag in each if tag[0] == "!")
    return Wording(text, parse(text), frozenset(tag for tag in each if tag[0] != "!"), bars)


def expand(pattern: Pattern, rng: random.Random, fill: Fill, out: list[str]) -> None:
    """Append the pattern's text to `out`, with choices made and slots filled."""
    for node in pattern:
        if isinstance(node, str):
            out.append(node)
        elif isinstance(node, Slot):
            out.append(fill(node, out))
        else:
            expand(node.options[int(rng.random() * len(node.options))], rng, fill, out)


def slots(pattern: Pattern) -> Iterator[Slot]:
    """All slots of the pattern."""
    for node in pattern:
        if isinstance(node, Slot):
            yield node
        elif isinstance(node, Choice):
            for option in node.options:
                yield from slots(option)


def parse(text: str) -> Pattern:
    """The pattern of a wording."""
    tokens = _TOKEN.findall(text)
    options, used = _options(tokens, 0)
    if used != len(tokens) or len(options) != 1:
        raise ValueError(f"Brackets do not match: {text}")
    return options[0]


def _options(tokens: list[str], at: int) -> tuple[list[Pattern], int]:
    """The patterns between bars from token `at` on, and where they end."""
    options: list[Pattern] = []
    nodes: list[str | Slot | Choice] = []
    while at < len(tokens) and tokens[at] != "]":
        token = tokens[at]
        if token == "[":
            inner, at = _options(tokens, at + 1)
            nodes.append(Choice(tuple(inner)))
        elif token == "|":
            options.append(tuple(nodes))
            nodes = []
        elif token[0] == "{":
            role, _, form = token[1:-1].partition(".")
            nodes.append(Slot(role[:1].lower() + role[1:], form, role[:1].isupper()))
        else:
            nodes.append(token)
        at += 1
    return [*options, tuple(nodes)], at
