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
from moa_core.train.bundle import books, manners, world
from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.tasks import KINDS, generate, is_held_out

CHARACTERS = 3.9  # in a token, roughly, to turn --tokens into an amount of text
FILE = 20_000_000  # characters of a file
Makers = dict[str, Callable[[], Chat | str]]


def main() -> None:
    """Draw documents of every kind by their share of the text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=path, required=True, help="folder of open texts")
    parser.add_argument("--out", type=path, required=True, help="folder for FILES.jsonl.gz")
    parser.add_argument("--tokens", type=float, default=20e6, help="about how many")
    parser.add_argument("--shares", required=True, help="of the text by kind: story=0.3,book=0.2")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shares = numbers("--shares", options.shares, "story=0.3,book=0.2")
    if not shares or not 0 < options.tokens < math.inf:
        raise UserError("Say how much of what: --shares of some kinds of text, --tokens above 0.")
    check_folder(options.out)
    write(options.texts, options.out, options.tokens, shares, options.seed)


def write(texts: Path, out: Path, tokens: float, shares: dict[str, float], seed: int) -> None:
    """Write files of chats and texts in random order; print documents and characters by kind."""
    rng = random.Random(f"bundle {seed} False")
    makers = makers_of(texts, rng, held_out=False)
    check_kinds(shares, makers)
    wanted = {kind: share * tokens * CHARACTERS for kind, share in shares.items()}
    written: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    out.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(_files(makers, wanted, written, counts)):
        rng.shuffle(lines)
        data = gzip.compress("\n".join(lines).encode(), 5)
        (out / f"train-{seed}-{number:03}.jsonl.gz").write_bytes(data)
    for kind in shares:
        print(f"{kind}: {counts[kind]:,} documents, {written[kind] / 1e6:.1f} M characters")


def _files(
    makers: Makers, wanted: dict[str, float], written: Counter[str], counts: Counter[str]
) -> Iterator[list[str]]:
    """Files of lines, all alike: the kind that is furthest behind its share comes next."""
    total = sum(wanted.values())
    lines: list[str] = []
    size = 0
    while written.total() < total:
        kind = min(wanted, key=lambda kind: written[kind] / wanted[kind])
        lines.append(_line(kind, makers[kind]()))
        written[kind] += len(lines[-1])
        counts[kind] += 1
        size += len(lines[-1])
        if size > FILE:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def check_kinds(wanted: Iterable[str], there: Iterable[str]) -> None:
    """UserError for kinds of text that do not exist."""
    if missing := sorted({*wanted} - {*there}):
        raise UserError(
            f"No text of kind {', '.join(missing)}; there is {', '.join(there) or 'none'}."
        )


def held_out_texts(texts: Path, each: int) -> dict[str, list[Chat | str]]:
    """Some held-out text of every kind, the same at each call."""
    makers = makers_of(texts, random.Random("documents True"), True)
    return {kind: [make() for _ in range(each)] for kind, make in makers.items()}


def makers_of(texts: Path, rng: random.Random, held_out: bool) -> Makers:
    """By kind of text, a function that makes one document."""
    opened = books.load(texts, held_out, rng)
    makers: Makers = {kind: partial(next, made) for kind, made in opened.items()}
    makers |= {f"task {kind}": partial(_task, kind, rng, held_out) for kind in KINDS}
    makers |= {f"world {kind}": partial(world_chat, kind, rng, held_out) for kind in world.KINDS}
    makers["manners"] = partial(manners.chats, rng, held_out)
    # The newest kind comes last: held-out texts of the others stay what they were.
    return dict(sorted(makers.items(), key=lambda one: one[0] == "opening"))


def _task(kind: str, rng: random.Random, held_out: bool) -> Chat:
    task = generate(kind, rng, held_out)
    return chat(task.prompt, task.answer)


def world_chat(kind: str, rng: random.Random, held_out: bool) -> Chat:
    """A chat of the small world, of training or held out."""
    while True:
        made = world.chats(kind, rng)
        if is_held_out(made[0]["content"]) == held_out:
            return made


def _line(kind: str, made: Chat | str) -> str:
    key = "text" if isinstance(made, str) else "messages"
    return json.dumps({"kind": kind.removeprefix("task "), key: made}, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(ended(main))
