"""The raw training text of a folder: its files read into records, each with a key to split by."""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moa_core.errors import UserError
from moa_core.train.bundle.prompts import question_chat, split_story
from moa_core.train.bundle.tasks import bucket
from moa_core.train.tokenizer import ROLES

HELD_OUT_PERCENT = 2
FEWEST = 50  # documents of a folder from which any are held out
END_OF_DOCUMENT = "<|endoftext|>"
_SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz")
# What a known text file holds; any other text is plain.
_TEXT_KINDS = {
    "tinystories": "story",
    "fables": "story",
    "picture_books": "story",
    "fairytales": "story",
    "sgd_dialogues": "dialogue",
}


@dataclass(frozen=True)
class Record:
    """One raw piece: how to read it, its text or row, and the key of the document it is from.

    few  its folder has too few documents to hold any out
    """

    kind: str
    key: str
    value: Any
    few: bool = False

    @property
    def split(self) -> str:
        """`heldout` for a small, fixed share of the documents, else `train`."""
        held_out = not self.few and bucket(self.key) < HELD_OUT_PERCENT
        return "heldout" if held_out else "train"


def load(folder: Path) -> dict[str, list[Record]]:
    """The records of every text file in the folder, by the file's name.

    Text files hold documents divided by lines `<|endoftext|>`; the rows of a `.jsonl` file hold
    `messages`, `text`, `question` and `answer`, or these two with `context`. Of fewer than `FEWEST`
    documents none is held out.
    """
    if not folder.is_dir():
        raise UserError(f"There is no data folder {folder}.")
    sources = {
        path.name.split(".")[0]: list(_records(path))
        for path in sorted(folder.iterdir())
        if path.name.endswith(_SUFFIXES)
    }
    if not any(sources.values()):
        raise UserError(f"The data folder {folder} holds no text in {', '.join(_SUFFIXES)} files.")
    return _none_of_few(_with_shared_keys(sources))


def _none_of_few(sources: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Hold none out of a few documents: each of them is much of the text."""
    keys = {record.key for records in sources.values() for record in records}
    if len(keys) >= FEWEST:
        return sources
    return {name: [replace(r, few=True) for r in records] for name, records in sources.items()}


def has_text(folder: Path) -> bool:
    """Whether there is anything for `load` in a folder."""
    return any(path.name.endswith(_SUFFIXES) for path in folder.iterdir())


def _records(path: Path) -> Iterator[Record]:
    text = _text_of(path)
    name = path.name.split(".")[0]
    if ".jsonl" in path.name:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield _row_record(line, f"Line {number} of {path}")
        return
    for document in filter(None, map(str.strip, text.split(END_OF_DOCUMENT))):
        kind = _TEXT_KINDS.get(name, "plain")
        pieces = split_story(document) if kind == "story" else [document]
        yield Record(kind, document, pieces[0])
        yield from (Record("continued", document, piece) for piece in pieces[1:])


def _text_of(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"The data file {path} cannot be read: {error}.") from error


def _row_record(line: str, where: str) -> Record:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not JSON: {error}.") from error
    match row:
        case {"messages": [_, *_] as messages} if all(map(_is_message, messages)):
            turns = tuple({"role": m["role"], "content": m["content"]} for m in messages)
            return Record("chat", line, turns)
        case {"story": str(story), "context": str(), "question": str(), "answer": str()}:
            return Record("reading", story, row)  # FairytaleQA
        case {"question": str(question), "answer": str(answer)} if "####" in answer:
            return Record("sum", question, row)  # GSM8K
        case {"question": str(question), "answer": str()}:
            return Record("chat", question, question_chat(row))
        case {"text": str(text)} if text.strip():
            return Record("plain", text, text.strip())
    raise UserError(f"{where} has no messages, no text and no question with an answer.")


def _is_message(message: Any) -> bool:
    match message:
        case {"role": role, "content": str()}:
            return role in ROLES
    return False


def _with_shared_keys(sources: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Give a fairy tale the key of the questions about it: both are held out, or neither."""
    questions = {r.key: r for r in sources.get("fairytale_qa", []) if r.kind == "reading"}
    openings = {_squeezed(r.value["context"])[:200]: key for key, r in questions.items()}
    keys: dict[str, str] = {}
    for document in {record.key for record in sources.get("fairytales", [])}:
        squeezed = _squeezed(document)
        keys[document] = next((k for text, k in openings.items() if text in squeezed), document)
    tales = [Record(r.kind, keys[r.key], r.value) for r in sources.get("fairytales", [])]
    return sources | ({"fairytales": tales} if tales else {})


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)
