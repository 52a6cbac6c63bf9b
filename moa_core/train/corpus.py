"""Training documents from the files of a folder, or from a data set on the Hub."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from moa_core.errors import UserError, first_line
from moa_core.loading.untrusted import is_message, parsed
from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.tasks import bucket

HELD_OUT_PERCENT = 2
FEWEST = 50  # with fewer documents, none is held out
END_OF_DOCUMENT = "<|endoftext|>"
BETWEEN = re.compile(rf"^{re.escape(END_OF_DOCUMENT)}\s*$", re.M)
LEARNT = ("messages", "text", "question", "answer", "context")  # of a row's keys
SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz")
DATA_SETS = (".parquet", ".arrow", ".csv", ".json", ".jsonl")

Split = Literal["train", "heldout"]


@dataclass(frozen=True)
class Document:
    """A chat or a plain text."""

    kind: str
    messages: Chat | None = None
    text: str | None = None

    @property
    def contents(self) -> list[str]:
        if self.messages is None:
            return [self.text or ""]
        return [message["content"] for message in self.messages]


def has_text(folder: Path) -> bool:
    return bool(_files(folder))


def has_rows(folder: Path) -> bool:
    """Whether a folder holds files of a data set, as a repository on the Hub does."""
    return any(path.suffix in DATA_SETS for path in folder.rglob("*"))


def load(folder: Path, split: Split = "train") -> list[Document]:
    """One split's documents in all text files of the folder.

    Documents in a text file are separated by lines `<|endoftext|>`. A row of a `.jsonl` file has
    `messages`, `text`, or `question` and `answer` with an optional `context`. A hash holds 2 % out.
    UserError for a folder or file that cannot be read.
    """
    found = [pair for path in _files(folder) for pair in _read(path)]
    if not found:
        raise UserError(f"The data folder {folder} holds no text in {', '.join(SUFFIXES)} files.")
    percent = 0 if len({key for key, _ in found}) < FEWEST else HELD_OUT_PERCENT
    wanted = split == "heldout"
    return [document for key, document in found if (bucket(key) < percent) == wanted]


def shuffled(
    documents: Sequence[Document], seed: int, epoch: int, split: Split = "train"
) -> list[Document]:
    """The documents in an epoch's order. Those with an empty turn are left out."""
    order = list(documents)
    random.Random(f"{seed} {epoch} {split}").shuffle(order)
    return [document for document in order if all(document.contents)]


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in sorted(folder.iterdir()) if path.name.endswith(SUFFIXES)]
    except OSError as error:
        raise UserError(f"The data folder {folder} cannot be read: {error.strerror}.") from None


def read_text(path: Path) -> str:
    """The text of a file, which may be compressed. UserError if it cannot be read."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UserError(f"The data file {path} cannot be read: {error}.") from error


def _read(path: Path) -> Iterator[tuple[str, Document]]:
    """A file's documents. The hash of the text beside each decides its split."""
    text = read_text(path)
    if ".jsonl" not in path.name:
        for document in filter(None, map(str.strip, BETWEEN.split(text))):
            yield document, Document("plain", text=document)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = _document(parsed(line), line)
        except ValueError as error:
            raise UserError(f"Line {number} of {path} is not JSON: {error}.") from error
        if found is None:
            raise UserError(
                f"Line {number} of {path} has no messages, no text and no question with an answer."
            )
        yield found


def _document(row: Any, line: str) -> tuple[str, Document] | None:
    """A row's document after its key; None if the row has no text."""
    match row:
        case {"messages": [_, *_] as messages} if all(map(is_message, messages)):
            turns = tuple({"role": m["role"], "content": m["content"]} for m in messages)
            return line, Document("chat", turns)  # type: ignore[arg-type]
        case {"question": str(question), "answer": str(answer)}:
            parts = (row.get("context"), question)
            asked = "\n\n".join(part.strip() for part in parts if isinstance(part, str) and part)
            return question, Document("chat", chat(asked, answer.strip()))
        case {"text": str(text)} if text.strip():
            return text, Document("plain", text=text.strip())
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
        if _document(row, "")
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
