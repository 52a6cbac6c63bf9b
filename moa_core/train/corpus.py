"""Training documents from the files of a folder, or from a data set on the Hub."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from moa_core.errors import UserError, first_line
from moa_core.untrusted import is_message, json_lines, read_text

HELD_OUT_PERCENT = 2  # of prompts
END_OF_DOCUMENT = "<|endoftext|>"
BETWEEN = re.compile(rf"^{re.escape(END_OF_DOCUMENT)}\s*$", re.M)
LEARNT = ("messages", "text", "question", "answer", "context")  # of a row's keys
SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz")


class Message(TypedDict):
    role: str
    content: str


Chat = tuple[Message, ...]


def chat(*turns: str) -> Chat:
    """A chat from its turns, the user's first."""
    roles = ("user", "assistant")
    return tuple(Message(role=roles[i % 2], content=turn) for i, turn in enumerate(turns))


def bucket(text: str) -> int:
    """A text's hash, from 0 to 99."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 100


@dataclass(frozen=True)
class Document:
    """A chat or a plain text."""

    messages: Chat | None = None
    text: str | None = None

    @property
    def contents(self) -> list[str]:
        if self.messages is None:
            return [self.text or ""]
        return [message["content"] for message in self.messages]


def has_text(folder: Path) -> bool:
    return bool(_files(folder))


def load(folder: Path) -> list[Document]:
    """The documents in all text files of the folder.

    Documents in a text file are separated by lines `<|endoftext|>`. A row of a `.jsonl` file has
    `messages`, `text`, or `question` and `answer` with an optional `context`. UserError for
    a folder or file that cannot be read.
    """
    found = [document for path in _files(folder) for document in _read(path)]
    if not found:
        raise UserError(f"The data folder {folder} holds no text in {', '.join(SUFFIXES)} files.")
    return found


def shuffled(documents: Sequence[Document], seed: int, epoch: int) -> list[Document]:
    """The documents in an epoch's order. Those with an empty turn are left out."""
    order = list(documents)
    random.Random(f"{seed} {epoch} train").shuffle(order)
    return [document for document in order if all(document.contents)]


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in sorted(folder.iterdir()) if path.name.endswith(SUFFIXES)]
    except OSError as error:
        raise UserError(f"The data folder {folder} cannot be read: {error.strerror}.") from None


def _read(path: Path) -> Iterator[Document]:
    if ".jsonl" not in path.name:
        for document in filter(None, map(str.strip, BETWEEN.split(read_text(path)))):
            yield Document(text=document)
        return
    for number, row in json_lines(path):
        if (found := _document(row)) is None:
            raise UserError(
                f"Line {number} of {path} has no messages, no text and no question with an answer."
            )
        yield found


def _document(row: Any) -> Document | None:
    """A row's document; None if the row has no text."""
    match row:
        case {"messages": [_, *_] as messages} if all(map(is_message, messages)):
            turns = (Message(role=m["role"], content=m["content"]) for m in messages)
            return Document(tuple(turns))
        case {"question": str(question), "answer": str(answer)}:
            parts = (row.get("context"), question)
            asked = "\n\n".join(part.strip() for part in parts if isinstance(part, str) and part)
            return Document(chat(asked, answer.strip()))
        case {"text": str(text)} if text.strip():
            return Document(text=text.strip())
    return None


def fetch(name: str, folder: Path) -> Path:
    """Write a Hub data set's training split into `folder`, unless it is there; return the folder.

    `name` may also be a folder like a data set's repository. UserError if the data set is not
    available or has no text.
    """
    path = folder / "data.jsonl"
    if path.exists():
        return folder
    rows = (
        {key: row[key] for key in LEARNT if row.get(key)}
        for row in _training_rows(name)
        if _document(row)
    )
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if not part.stat().st_size:
        part.unlink()
        raise UserError(
            f"The data set {name} has rows with neither `messages` nor `text`, "
            "nor `question` and `answer`."
        )
    os.replace(part, path)
    return folder


def _training_rows(name: str) -> Iterator[Any]:
    import datasets

    try:
        splits = datasets.get_dataset_split_names(name)
        # UltraChat-200k calls its split for fine-tuning train_sft.
        wanted = next((s for s in ("train_sft", "train") if s in splits), splits[0])
        yield from datasets.load_dataset(name, split=wanted)
    except Exception as error:  # the library raises many kinds, all with the same meaning
        raise UserError(
            f"{name} is neither a folder of text nor a data set to be had: {first_line(error)}"
        ) from error
