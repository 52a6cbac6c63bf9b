"""Training text as documents: the files of a folder, or a data set from the Hub."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from moa_core.errors import UserError, first_line
from moa_core.train.bundle import prompts
from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.tasks import KINDS, bucket, generate

HELD_OUT_PERCENT = 2
FEWEST = 50  # documents of a folder from which any are held out
END_OF_DOCUMENT = "<|endoftext|>"
ROLES = ("system", "user", "assistant")
_SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz")
# Files of the bundle's recipe that hold something else than plain text.
_TEXT_KINDS = {
    **dict.fromkeys(("tinystories", "fables", "picture_books", "fairytales"), "story"),
    "sgd_dialogues": "dialogue",
}
_HALVED = "childrens_classics"  # long: each epoch takes the other half of it

Split = Literal["train", "heldout"]


@dataclass(frozen=True)
class Document:
    """One training example: a chat, or plain text; generated, or somebody's."""

    kind: str
    messages: Chat | None = None
    text: str | None = None
    generated: bool = False

    @property
    def contents(self) -> list[str]:
        if self.messages is None:
            return [self.text or ""]
        return [message["content"] for message in self.messages]


@dataclass(frozen=True)
class Record:
    """A document before it is phrased as a chat: how to read it, its value, and its key.

    key  the text whose hash decides the split
    few  its folder has too few documents to hold any out
    """

    kind: str
    key: str
    value: Any
    few: bool = False

    @property
    def split(self) -> Split:
        """`heldout` for a small, fixed share of the documents, else `train`."""
        held_out = not self.few and bucket(self.key) < HELD_OUT_PERCENT
        return "heldout" if held_out else "train"

    def document(self, rng: random.Random) -> Document:
        if self.kind == "plain":
            return Document("plain", text=self.value)
        kind = "story" if self.kind == "continued" else self.kind
        return Document(kind, prompts.phrased(self.kind, self.value, rng))


# Folders


def has_text(folder: Path) -> bool:
    """Whether there is anything for `load` in a folder."""
    return any(path.name.endswith(_SUFFIXES) for path in folder.iterdir())


def load(folder: Path) -> dict[str, list[Record]]:
    """The records of every text file in the folder, by the file's name.

    Text files hold documents divided by lines `<|endoftext|>`; the rows of a `.jsonl` file hold
    `messages`, `text`, `question` and `answer`, or these two with `context`. Of fewer than `FEWEST`
    documents none is held out. UserError for a folder or a file that cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"There is no data folder {folder}.")
    files = [path for path in sorted(folder.iterdir()) if path.name.endswith(_SUFFIXES)]
    sources = {path.name.split(".")[0]: list(_records(path)) for path in files}
    if not any(sources.values()):
        raise UserError(f"The data folder {folder} holds no text in {', '.join(_SUFFIXES)} files.")
    sources = _with_shared_keys(sources)
    if len({record.key for records in sources.values() for record in records}) >= FEWEST:
        return sources
    return {name: [replace(r, few=True) for r in records] for name, records in sources.items()}


def epoch(
    sources: dict[str, list[Record]],
    seed: int,
    epoch: int,
    split: Split = "train",
    tasks_per_epoch: int = 0,
) -> Iterator[Document]:
    """The split's documents and tasks of all kinds, shuffled and newly phrased every epoch."""
    rng = random.Random(f"{seed} {epoch} {split}")
    plan: list[Record | str] = [
        record
        for name, records in sources.items()
        for record in (records[epoch % 2 :: 2] if name == _HALVED else records)
        if record.split == split
    ]
    plan.extend(KINDS[i % len(KINDS)] for i in range(tasks_per_epoch))
    rng.shuffle(plan)
    for item in plan:
        if isinstance(item, Record):
            document = item.document(rng)
            if all(document.contents):  # a few dialogues have an empty turn
                yield document
        else:
            task = generate(item, rng, held_out=split == "heldout")
            yield Document(task.kind, chat(task.prompt, task.answer), generated=True)


def _records(path: Path) -> Iterator[Record]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"The data file {path} cannot be read: {error}.") from error
    name = path.name.split(".")[0]
    if ".jsonl" in path.name:
        lines = enumerate(text.split("\n"), 1)
        yield from (_line(line, f"Line {at} of {path}") for at, line in lines if line.strip())
        return
    kind = _TEXT_KINDS.get(name, "plain")
    for document in filter(None, map(str.strip, text.split(END_OF_DOCUMENT))):
        pieces = prompts.split_story(document) if kind == "story" else [document]
        yield Record(kind, document, pieces[0])
        yield from (Record("continued", document, piece) for piece in pieces[1:])


def _line(line: str, where: str) -> Record:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not JSON: {error}.") from error
    if (record := _record(row, line)) is None:
        raise UserError(f"{where} has no messages, no text and no question with an answer.")
    return record


def _record(row: Any, line: str) -> Record | None:
    """A row as a record; None if there is nothing to learn in it. line: the key of a chat."""
    match row:
        case {"messages": [_, *_] as messages} if all(map(_is_message, messages)):
            turns = tuple({"role": m["role"], "content": m["content"]} for m in messages)
            return Record("chat", line, turns)
        case {"story": str(story), "context": str(), "question": str(), "answer": str()}:
            return Record("reading", story, row)  # FairytaleQA
        case {"question": str(question), "answer": str(answer)} if "####" in answer:
            return Record("sum", question, row)  # GSM8K
        case {"question": str(question), "answer": str()}:
            return Record("chat", question, prompts.question_chat(row))
        case {"text": str(text)} if text.strip():
            return Record("plain", text, text.strip())
    return None


def _is_message(message: Any) -> bool:
    match message:
        case {"role": role, "content": str()}:
            return role in ROLES
    return False


def _with_shared_keys(sources: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Give a fairy tale the key of the questions about it: both are held out, or neither."""
    if "fairytales" not in sources:
        return sources
    questions = {r.key: r for r in sources.get("fairytale_qa", []) if r.kind == "reading"}
    openings = {_squeezed(r.value["context"])[:200]: key for key, r in questions.items()}
    keys: dict[str, str] = {}
    for document in {record.key for record in sources["fairytales"]}:
        squeezed = _squeezed(document)
        keys[document] = next((k for text, k in openings.items() if text in squeezed), document)
    return sources | {"fairytales": [replace(r, key=keys[r.key]) for r in sources["fairytales"]]}


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


# The Hub


class Row(NamedTuple):
    """A data set's row as a training document, and whether it is kept from training."""

    document: Document
    held_out: bool


class Rows:
    """A data set's training rows, streamed. UserError if the data set is not available.

    A folder laid out like a data set's repository is read the same way.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._set = _training_split(name, streaming=True)

    def read_from(self, state: dict[str, Any] | None) -> Iterator[Row]:
        """The rows after an earlier `state`, or from the start. One reader at a time."""
        if state is None:
            self._set = _training_split(self.name, streaming=True)
        else:
            self._set.load_state_dict(state)
        for row in self._set:
            fields = _fields(row)
            key = json.dumps(fields, ensure_ascii=False)
            if fields and (record := _record(fields, key)) is not None:
                document = record.document(random.Random(0))
                if all(document.contents):
                    yield Row(document, bucket(key) < HELD_OUT_PERCENT)

    def state(self) -> dict[str, Any]:
        """Where the reader stands: after the last row that was taken."""
        state: dict[str, Any] = self._set.state_dict()
        return state

    def heldout(self, count: int, among: int = 5_000) -> list[Document]:
        """The first few documents that are kept from training."""
        rows = islice(Rows(self.name).read_from(None), among)
        return list(islice((row.document for row in rows if row.held_out), count))

    def documents(self) -> int | None:
        """How many rows there are, if the data set says so."""
        known = (self._set.info.splits or {}).get(str(self._set.split))
        return known.num_examples or None if known else None


def fetch(name: str, folder: Path) -> Path:
    """Write a Hub data set's training split into `folder`, once; return the folder.

    Rows need `messages`, a chat; `text`; or `question` and `answer`. UserError if the data set
    is not available or has none of them.
    """
    path = folder / "data.jsonl"
    if path.exists():
        return folder
    rows = filter(None, map(_fields, _training_split(name)))
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


def _training_split(name: str, streaming: bool = False) -> Any:
    import datasets

    more = {"streaming": True} if streaming else {}
    try:
        splits = datasets.get_dataset_split_names(name)
        # UltraChat-200k calls its split for fine-tuning train_sft.
        wanted = next((s for s in ("train_sft", "train") if s in splits), splits[0])
        return datasets.load_dataset(name, split=wanted, **more)
    except Exception as error:  # the library raises many kinds, all with the same meaning
        raise UserError(
            f"{name} is neither a folder nor a data set that the Hub gave us: {first_line(error)}"
        ) from error


def _fields(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The part of a data set's row that can be learnt."""
    if row.get("messages"):
        turns = [{"role": m["role"], "content": m["content"]} for m in row["messages"]]
        return {"messages": turns}
    if row.get("text"):
        return {"text": row["text"]}
    match row:
        case {"question": str(question), "answer": str(answer)} if question and answer:
            context = row.get("context")
            more = {"context": context} if isinstance(context, str) else {}
            return {**more, "question": question, "answer": answer}
    return None
