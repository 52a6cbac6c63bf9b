"""What a training command says at its end: where the result is, and what to type next."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moa_core.train.arguments import ROWS

if TYPE_CHECKING:
    from moa_core.train.corpus import Document

_PROGRAM = ("python", "-m", "moa_core")
_WORDS = 8  # of a document, to prompt with


def of_target(options: argparse.Namespace, example: Document | None) -> str:
    """After `train target`. example: a document that was trained on."""
    named = ("--target", str(options.out))
    drafters = options.out.with_name(f"{options.out.name}-drafters")
    length = ("--minutes", f"{options.minutes:g}") if options.minutes else ()
    length = length or ("--updates", str(options.updates))
    next_ones = (
        ("generate", *named, "--drafter", "none", *_prompt(example)),
        ("train", "drafters", *named, "--data", options.data, "--out", str(drafters), *length,
         *_rows(options)),
    )  # fmt: skip
    return _told(f"The target is in {options.out}.", next_ones)


def of_drafters(
    options: argparse.Namespace, methods: Sequence[str], example: Document | None
) -> str:
    """After `train drafters`."""
    folders = [str(options.out / method) for method in methods]
    named = ("--target", options.target) if options.target else ()
    form = (f"--load-in-{options.bits}bit",) if options.bits else ()
    line = ("generate", *named, *form, "--drafter", folders[0], *_prompt(example))
    be = "The drafter is in" if len(folders) == 1 else "The drafters are in"
    return _told(f"{be} {', '.join(folders)}.", (line,))


def _rows(options: argparse.Namespace) -> tuple[str, ...]:
    """Smaller rows for the drafters where the target's were made smaller, for want of text, say."""
    rows, length = options.rows, options.row_length
    if (rows, length) == ROWS["target"]:
        rows, length = ROWS["drafters"]
    length = min(length, options.context)
    return () if (rows, length) == ROWS["drafters"] else _row_words(rows, length)


def _row_words(rows: int, length: int) -> tuple[str, ...]:
    return ("--rows", str(rows), "--row-length", str(length))


def _prompt(example: Document | None) -> tuple[str, ...]:
    """The first words of a document: for a text to go on from, or what a chat began with."""
    text = ""
    raw: tuple[str, ...] = ()
    if example and example.messages:
        text = next((m["content"] for m in example.messages if m["role"] == "user"), "")
    elif example:
        text, raw = example.text or "", ("--raw",)
    words = " ".join(text.split()[:_WORDS]) or "Once upon a time"
    return (*raw, *((f"--prompt={words}",) if words.startswith("-") else ("--prompt", words)))


def _told(result: str, lines: Sequence[Sequence[str]]) -> str:
    commands = "\n".join(f"  {shlex.join((*_PROGRAM, *line))}" for line in lines)
    return f"{result} Next:\n\n{commands}"
