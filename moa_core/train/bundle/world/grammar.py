"""Wordings: plain text with choices `[this|that]`, slots `{role.form}` and guards `@tag,!tag`.

A file of wordings has sections headed `# name`. A line is one wording; `= ` begins a plain clause
that sums the event up, and `? question -> answer` asks about it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
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


@dataclass
class Section:
    """All wordings of one event, its clauses, and questions about it with their answers."""

    wordings: list[Wording] = field(default_factory=list)
    clauses: list[Pattern] = field(default_factory=list)
    asks: list[tuple[Pattern, Pattern]] = field(default_factory=list)

    def add(self, line: str) -> None:
        if line.startswith("= "):
            self.clauses.append(parse(line[2:]))
        elif line.startswith("? "):
            question, answer = line[2:].split(" -> ")
            self.asks.append((parse(question), parse(answer)))
        else:
            self.wordings.append(guarded(line))


@cache
def sections() -> dict[str, Section]:
    found: dict[str, Section] = {}
    for file in sorted((files(__package__) / "wordings").iterdir(), key=lambda file: file.name):
        section = Section()
        for line in filter(None, map(str.strip, file.read_text("utf-8").splitlines())):
            if line.startswith("# "):
                section = found.setdefault(line[2:], Section())
            else:
                section.add(line)
    return found


def section(name: str) -> Section:
    """The section of an event: its plot's own, or the one that all plots share."""
    found = sections()
    return found.get(name) or found.get(name.rpartition(".")[2]) or Section()


def guarded(line: str) -> Wording:
    """The wording in a line, which may begin with a guard."""
    guard, text = line[1:].split(" ", 1) if line.startswith("@") else ("", line)
    tags = set(filter(None, guard.split(",")))
    bars = {tag for tag in tags if tag[0] == "!"}
    return Wording(text, parse(text), frozenset(tags - bars), frozenset(tag[1:] for tag in bars))


def expand(pattern: Pattern, rng: random.Random, fill: Fill, out: list[str]) -> None:
    """Append the pattern's text to `out`: draw choices and fill slots."""
    for node in pattern:
        if isinstance(node, str):
            out.append(node)
        elif isinstance(node, Slot):
            out.append(fill(node, out))
        else:
            expand(node.options[int(rng.random() * len(node.options))], rng, fill, out)


def slots(pattern: Pattern) -> Iterator[Slot]:
    for node in pattern:
        if isinstance(node, Slot):
            yield node
        elif isinstance(node, Choice):
            for option in node.options:
                yield from slots(option)


def parse(text: str) -> Pattern:
    return _options(iter(_TOKEN.findall(text)))[0]


def _options(tokens: Iterator[str]) -> tuple[Pattern, ...]:
    """The patterns between bars, up to the closing bracket."""
    options: list[Pattern] = [()]
    for token in tokens:
        node: str | Slot | Choice = token
        if token == "]":
            break
        if token == "|":
            options.append(())
            continue
        if token == "[":
            node = Choice(_options(tokens))
        elif token[0] == "{":
            role, _, form = token[1:-1].partition(".")
            node = Slot(role[:1].lower() + role[1:], form, role[:1].isupper())
        options[-1] += (node,)
    return tuple(options)
