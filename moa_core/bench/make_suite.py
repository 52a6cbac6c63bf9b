"""Makes the bundled suite from text that nothing was trained on: held-out documents and tasks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from moa_core.assets import ASSETS
from moa_core.errors import UserError
from moa_core.train import corpus
from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.tasks import KINDS as TASKS
from moa_core.train.bundle.tasks import generate
from moa_core.train.corpus import Document, epoch

KINDS = ("story", "dialogue", "reading", "sum", "task")
PER_KIND, FOR_TUNING = 40, 4
LONGEST = 2_200  # characters of a prompt: about 600 tokens, so that it fits a context of 1,024


def make_suite(data: Path, folder: Path = ASSETS / "suites", seed: int = 0) -> list[Path]:
    """Write bundled.jsonl and tuning.jsonl, which share no prompt; the same for the same seed.

    Kinds: story, dialogue (cut before a random reply), reading (a question about a passage), sum
    (half grade-school problems, half generated), task (reverse, sort, letters, number, python).
    """
    written = list(epoch(corpus.load(data), seed, 0, "heldout"))
    found = {kind: list(_of_kind(written, kind, seed)) for kind in KINDS}
    for kind, rows in found.items():
        if len(rows) < PER_KIND + FOR_TUNING:
            raise UserError(
                f"{data} has {len(rows)} held-out prompts of the kind {kind}; "
                f"{PER_KIND + FOR_TUNING} are needed."
            )
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"bundled": (0, PER_KIND), "tuning": (PER_KIND, PER_KIND + FOR_TUNING)}
    return [
        _write(folder / f"{name}.jsonl", {kind: rows[first:last] for kind, rows in found.items()})
        for name, (first, last) in parts.items()
    ]


def _of_kind(written: list[Document], kind: str, seed: int) -> Iterator[dict[str, Any]]:
    """Rows of one kind, as many as are needed, no prompt twice."""
    seen: set[str] = set()
    rng = random.Random(f"{seed} {kind}")
    for document in _mixed(_documents(written, kind, rng)):
        row = {"kind": kind, **_asked(document.messages or (), rng)}
        text = json.dumps(row, ensure_ascii=False)
        words = row.get("prompt") or "".join(m["content"] for m in row["messages"])
        if text not in seen and len(words) <= LONGEST and len(seen) < PER_KIND + FOR_TUNING:
            seen.add(text)
            yield row


def _documents(written: list[Document], kind: str, rng: random.Random) -> dict[str, list[Document]]:
    """Held-out documents of a kind, apart by where they come from: written ones, or each task's."""
    if kind == "task":
        return {task: _generated(task, rng) for task in TASKS if task != "sum"}
    found = {"written": [each for each in written if each.kind == kind and each.messages]}
    if kind == "sum":
        found["generated"] = _generated("sum", rng)
    return found


def _generated(task: str, rng: random.Random) -> list[Document]:
    """Held-out tasks, more than are needed: a few come twice."""
    made = [generate(task, rng, held_out=True) for _ in range(2 * (PER_KIND + FOR_TUNING))]
    return [Document(each.kind, chat(each.prompt, each.answer)) for each in made]


def _mixed(found: dict[str, list[Document]]) -> Iterator[Document]:
    """One of each in turn, so that all have an equal share."""
    return chain.from_iterable(zip(*found.values(), strict=False))


def _asked(messages: Chat, rng: random.Random) -> dict[str, Any]:
    """A chat cut before one of its replies: a prompt if that is its first, else messages."""
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    asked = messages[: rng.choice(replies)]
    return {"prompt": asked[0]["content"]} if len(asked) == 1 else {"messages": list(asked)}


def _write(path: Path, kinds: dict[str, list[dict[str, Any]]]) -> Path:
    """One row of each kind in turn: a drift of the machine's speed then meets all kinds alike."""
    rows = chain.from_iterable(zip(*kinds.values(), strict=True))
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path
