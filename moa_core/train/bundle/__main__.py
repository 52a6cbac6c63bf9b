"""Write the training text of the bundle: python -m moa_core.train.bundle --texts DATA --out OUT"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from moa_core.arguments import check_folder, numbers, path
from moa_core.errors import UserError, ended
from moa_core.train.bundle import books, manners, prompts, world
from moa_core.train.bundle.tasks import KINDS, generate, is_held_out
from moa_core.train.corpus import Document

WORLD = ("story", "words", "continued", "reading", "talk")
CHARACTERS = 3.9  # in a token, roughly, to turn --tokens into an amount of text
FILE = 20_000_000  # characters of a file


def main() -> None:
    """Draw documents of every kind by their share of the text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=path, required=True, help="folder of open texts")
    parser.add_argument("--out", type=path, required=True, help="folder for FILES.jsonl.gz")
    parser.add_argument("--tokens", type=float, default=20e6, help="about how many")
    parser.add_argument("--shares", required=True, help="of the text by kind: story=0.3,book=0.2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", action="store_true", help="what is never trained on instead")
    options = parser.parse_args()
    shares = numbers("--shares", options.shares, "story=0.3,book=0.2")
    if not shares or not 0 < options.tokens < math.inf:
        raise UserError("Say how much of what: --shares of some kinds of text, --tokens above 0.")
    check_folder(options.out)
    write(options.texts, options.out, options.tokens, shares, options.seed, options.held_out)


def write(
    texts: Path, out: Path, tokens: float, shares: dict[str, float], seed: int, held_out: bool
) -> None:
    """Write files of chats and texts in random order; prints documents and characters by kind."""
    rng = random.Random(f"bundle {seed} {held_out}")
    there = _makers(texts, rng, held_out)
    check_kinds(shares, there)
    makers = {kind: there[kind] for kind in there if kind in shares}
    wanted = {kind: share * tokens * CHARACTERS for kind, share in shares.items()}
    written: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    out.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(_files(makers, wanted, written, counts, rng)):
        name = f"{'heldout' if held_out else 'train'}-{seed}-{number:03}.jsonl.gz"
        (out / name).write_bytes(gzip.compress("\n".join(lines).encode(), 5))
    for kind in shares:
        print(f"{kind}: {counts[kind]:,} documents, {written[kind] / 1e6:.1f} M characters")


def _files(
    makers: dict[str, Callable[[], Document]], wanted: dict[str, float], written: Counter[str],
    counts: Counter[str], rng: random.Random,
) -> Iterator[list[str]]:  # fmt: skip
    """Files of lines. The kind furthest behind its share comes next: all files are alike."""
    total = sum(wanted.values())
    lines: list[str] = []
    size = 0
    while sum(written.values()) < total:
        kind = min(wanted, key=lambda kind: written[kind] / wanted[kind])
        line = _line(makers[kind]())
        lines.append(line)
        written[kind] += len(line)
        counts[kind] += 1
        size += len(line)
        if size > FILE:
            rng.shuffle(lines)
            yield lines
            lines, size = [], 0
    if lines:
        rng.shuffle(lines)
        yield lines


def check_kinds(wanted: Iterable[str], there: Iterable[str]) -> None:
    """UserError for kinds of text that there are not."""
    if missing := sorted({*wanted} - {*there}):
        raise UserError(
            f"No text of kind {', '.join(missing)}; there is {', '.join(there) or 'none'}."
        )


def documents_of(texts: Path, each: int, held_out: bool = True) -> dict[str, list[Document]]:
    """Some documents of every kind, the same ones at each call."""
    makers = _makers(texts, random.Random(f"documents {held_out}"), held_out)
    return {kind: [make() for _ in range(each)] for kind, make in makers.items()}


def _makers(texts: Path, rng: random.Random, held_out: bool) -> dict[str, Callable[[], Document]]:
    makers: dict[str, Callable[[], Document]] = {
        kind: partial(next, books.passes(text, rng))
        for kind, text in books.load(texts, held_out).items()
    }
    makers |= {f"task {kind}": partial(_task, kind, rng, held_out) for kind in KINDS}
    makers |= {f"world {kind}": partial(_world, kind, rng, held_out) for kind in WORLD}
    makers["manners"] = lambda: Document("manners", manners.chats(rng, held_out))
    return makers


def _task(kind: str, rng: random.Random, held_out: bool) -> Document:
    task = generate(kind, rng, held_out)
    return Document(task.kind, prompts.chat(task.prompt, task.answer))


def _world(kind: str, rng: random.Random, held_out: bool) -> Document:
    while True:
        chat = world.chats(kind, rng)
        if is_held_out(chat[0]["content"]) == held_out:
            return Document(f"world {kind}", chat)


def _line(document: Document) -> str:
    text, messages = document.text, document.messages
    contents = {"text": text} if messages is None else {"messages": messages}
    return json.dumps({"kind": document.kind, **contents}, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(ended(main))
