"""Data sets from the Hub: read row by row as they come, or brought into a folder first.

A folder laid out like a data set's repository, with `data/train_sft-00000-of-00001.parquet`, say,
is read the same way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from moa_core.errors import UserError, first_line
from moa_core.train.bundle.prompts import question_chat
from moa_core.train.bundle.tasks import bucket
from moa_core.train.corpus import Document
from moa_core.train.sources import HELD_OUT_PERCENT


@dataclass(frozen=True)
class Row:
    """A data set's row as a training document, and whether it is kept from training."""

    document: Document
    held_out: bool


class Rows:
    """A data set's training rows, streamed: nothing is downloaded before it is wanted.

    UserError if the data set cannot be had.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._set = _training_split(name, streaming=True)

    def go_on(self, begun: dict[str, Any] | None) -> Iterator[Row]:
        """The rows from where the reader once stood, or from the start. One at a time."""
        if begun is None:
            self._set = _training_split(self.name, streaming=True)
        else:
            self._set.load_state_dict(begun)
        for row in self._set:
            if (document := _document(row)) is not None:
                key = json.dumps(_kept(row), ensure_ascii=False)
                yield Row(document, bucket(key) < HELD_OUT_PERCENT)

    def stands(self) -> dict[str, Any]:
        """Where the reader stands: after the last row that was taken."""
        place: dict[str, Any] = self._set.state_dict()
        return place

    def heldout(self, count: int, among: int = 5_000) -> list[Document]:
        """The first few documents that are kept from training."""
        found = (r.document for r in islice(Rows(self.name).go_on(None), among) if r.held_out)
        return list(islice(found, count))

    def documents(self) -> int | None:
        """How many rows there are, if the data set says so."""
        known = (self._set.info.splits or {}).get(str(self._set.split))
        return known.num_examples or None if known else None


def fetch(name: str, folder: Path) -> Path:
    """Write a Hub data set's training split into `folder`, once; return the folder.

    Rows need `messages`, a chat; `text`; or `question` and `answer`. UserError if the data set
    cannot be had or has none of them.
    """
    path = folder / "data.jsonl"
    if path.exists():
        return folder
    rows = _training_split(name)
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    count = 0
    with part.open("w", encoding="utf-8") as file:
        for row in rows:
            kept = _kept(row)
            if kept:
                file.write(json.dumps(kept, ensure_ascii=False) + "\n")
                count += 1
    if not count:
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
    except Exception as error:  # the library raises many kinds; all mean: not to be had
        raise UserError(
            f"{name} is neither a folder nor a data set that the Hub gave us: {first_line(error)}"
        ) from error


def _kept(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The part of a row that can be trained on."""
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


def _document(row: Mapping[str, Any]) -> Document | None:
    match _kept(row) or {}:
        case {"messages": turns} if all(isinstance(turn["content"], str) for turn in turns):
            return Document("chat", tuple(turns)) if all(t["content"] for t in turns) else None
        case {"text": str(text)}:
            return Document("plain", text=text)
        case {"question": _, "answer": _} as pair:
            return Document("chat", question_chat(pair))
    return None
