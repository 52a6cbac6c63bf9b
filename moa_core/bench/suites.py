"""Prompts to measure with: the bundled suite, published question sets, or a person's own file.

`make_suite` makes the bundled one from text that nothing was trained on: held-out documents, tasks.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moa_core.assets import ASSETS
from moa_core.decoding.decode import check_prompt
from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import chat_ids, tokenizer_of

if TYPE_CHECKING:
    from moa_core.train.corpus import Document

Message = dict[str, str]  # role and content of one turn
QUESTIONS = ("mt_bench", "humaneval", "gsm8k", "alpaca", "sum", "qa")
ROLES = ("system", "user", "assistant")
KINDS = ("story", "dialogue", "reading", "sum", "task")
PER_KIND, FOR_TUNING = 40, 4
LONGEST = 2_200  # characters of a prompt: about 600 tokens, so that it fits a context of 1,024


@dataclass(frozen=True)
class Prompt:
    """One prompt of a suite. number: its line, from 1; messages: a chat that the user ends."""

    number: int
    kind: str
    messages: tuple[Message, ...]


def load_suite(name: str, limit: int | None = None) -> list[Prompt]:
    """Load `bundled`, `tuning`, a question set or a JSON-lines file; at most `limit` of each kind.

    UserError naming the line that holds no prompt.
    """
    path = suite_path(name)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The suite {path} cannot be read: {error}.") from None
    kind = path.stem
    prompts = [_prompt(line, at, kind) for at, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise UserError(f"The suite {path} holds no prompts.")
    return prompts if limit is None else _first_of_each(prompts, limit)


def suite_path(name: str) -> Path:
    """Where a suite lies. UserError for a name that is neither one of ours nor a file."""
    if name in ("bundled", "tuning"):
        return ASSETS / "suites" / f"{name}.jsonl"
    if name in QUESTIONS:
        return ASSETS / "questions" / f"{name}.jsonl"
    path = Path(name).expanduser()
    if not path.is_file():
        raise UserError(
            f"There is no suite {name}: choose from bundled, {', '.join(QUESTIONS)}, or name a "
            "file of JSON lines."
        )
    return path


def suite_hash(prompts: Sequence[Prompt]) -> str:
    """A short hash of all prompts: two files of one name may differ."""
    text = json.dumps([[prompt.kind, prompt.messages] for prompt in prompts])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def suite_ids(prompts: Sequence[Prompt], target: Target) -> list[list[int]]:
    """The token ids of prompts. UserError, naming the line, for one that the target cannot read."""
    return [_ids(prompt, target) for prompt in prompts]


def readable(prompts: Sequence[Prompt], target: Target) -> tuple[list[Prompt], list[list[int]]]:
    """The prompts that this target can read, and their ids. UserError if there is none."""
    found, last = [], UserError("There are no prompts.")
    for prompt in prompts:
        try:
            found.append((prompt, _ids(prompt, target)))
        except UserError as error:
            last = error
    if not found:
        raise last
    return [prompt for prompt, _ in found], [ids for _, ids in found]


def _ids(prompt: Prompt, target: Target) -> list[int]:
    tokenizer = tokenizer_of(target)
    try:
        ids = chat_ids(tokenizer, prompt.messages)
        check_prompt(ids, target)
    except UserError as error:
        raise UserError(f"Line {prompt.number} of the suite: {error}") from None
    return ids


def _first_of_each(prompts: list[Prompt], limit: int) -> list[Prompt]:
    if limit < 1:
        raise UserError("--limit must be a whole number of prompts per kind, at least 1.")
    seen: Counter[str] = Counter()
    kept = []
    for prompt in prompts:
        seen[prompt.kind] += 1
        if seen[prompt.kind] <= limit:
            kept.append(prompt)
    return kept


def _prompt(line: str, number: int, default_kind: str) -> Prompt:
    where = f"Line {number} of the suite"
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where} is not JSON: {error}.") from None
    if not isinstance(row, dict):
        raise UserError(f"{where} is not a JSON object with kind and prompt.")
    messages = _messages(row)
    if messages is None:
        raise UserError(f"{where} has neither a prompt of text nor messages that a user ends.")
    kind = row.get("kind") or row.get("category") or default_kind
    if not isinstance(kind, str):
        raise UserError(f"{where} has a kind that is no text.")
    return Prompt(number, kind, messages)


def _messages(row: dict[str, Any]) -> tuple[Message, ...] | None:
    """A row's chat; None if it has none. Of the question sets' turns only the first is asked."""
    match row:
        case {"messages": [*turns, {"role": "user"}] as messages} if all(
            _is_message(turn) for turn in [*turns, messages[-1]]
        ):
            return tuple({"role": m["role"], "content": m["content"]} for m in messages)
        case {"prompt": str(text)} | {"turns": [str(text), *_]} if text.strip():
            return ({"role": "user", "content": text},)
    return None


def _is_message(message: Any) -> bool:
    match message:
        case {"role": role, "content": str(content)}:
            return role in ROLES and bool(content.strip())
    return False


# ---- the bundled suite ----


def make_suite(data: Path, folder: Path = ASSETS / "suites", seed: int = 0) -> list[Path]:
    """Write bundled.jsonl and tuning.jsonl, which share no prompt; the same for the same seed.

    Kinds: story, dialogue (cut before a random reply), reading (a question about a passage), sum
    (half grade-school problems, half generated), task (reverse, sort, letters, number, python).
    """
    from moa_core.train.corpus import epoch, load

    documents = list(epoch(load(data), seed, 0, "heldout"))
    found = {kind: list(_of_kind(documents, kind, seed)) for kind in KINDS}
    for kind, rows in found.items():
        if len(rows) < PER_KIND + FOR_TUNING:
            raise UserError(
                f"{data} has {len(rows)} held-out prompts of the kind {kind}; "
                f"{PER_KIND + FOR_TUNING} are needed."
            )
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"bundled": (0, PER_KIND), "tuning": (PER_KIND, PER_KIND + FOR_TUNING)}
    paths = []
    for name, (first, last) in parts.items():
        # One row of each kind in turn: a drift of the machine's speed then meets all kinds alike.
        turns = zip(*(rows[first:last] for rows in found.values()), strict=True)
        lines = [json.dumps(row, ensure_ascii=False) for row in chain.from_iterable(turns)]
        paths.append(folder / f"{name}.jsonl")
        paths[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def _of_kind(documents: list[Document], kind: str, seed: int) -> Iterator[dict[str, Any]]:
    """Rows of one kind, as many as are needed, no prompt twice."""
    seen: set[str] = set()
    rng = random.Random(f"{seed} {kind}")
    sources = _sources(documents, kind, rng)
    for document in chain.from_iterable(zip(*sources, strict=False)):  # all have an equal share
        row = {"kind": kind, **_asked(document.messages or (), rng)}
        text = json.dumps(row, ensure_ascii=False)
        words = row.get("prompt") or "".join(m["content"] for m in row["messages"])
        if text not in seen and len(words) <= LONGEST and len(seen) < PER_KIND + FOR_TUNING:
            seen.add(text)
            yield row


def _sources(documents: list[Document], kind: str, rng: random.Random) -> list[list[Document]]:
    """Held-out documents of a kind, apart by where they come from: written ones, or each task's."""
    from moa_core.train.bundle.prompts import chat
    from moa_core.train.bundle.tasks import KINDS as TASKS
    from moa_core.train.bundle.tasks import generate
    from moa_core.train.corpus import Document

    def generated(task: str) -> list[Document]:  # more than are needed: a few come twice
        made = [generate(task, rng, held_out=True) for _ in range(2 * (PER_KIND + FOR_TUNING))]
        return [Document(each.kind, chat(each.prompt, each.answer)) for each in made]

    if kind == "task":
        return [generated(task) for task in TASKS if task != "sum"]
    written = [each for each in documents if each.kind == kind and each.messages]
    return [written, generated("sum")] if kind == "sum" else [written]


def _asked(messages: Sequence[Any], rng: random.Random) -> dict[str, Any]:
    """A chat cut before one of its replies: a prompt if that is its first, else messages."""
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    asked = messages[: rng.choice(replies)]
    return {"prompt": asked[0]["content"]} if len(asked) == 1 else {"messages": list(asked)}
