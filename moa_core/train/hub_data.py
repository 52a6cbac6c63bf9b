"""Data sets from the Hub, brought into a folder that `sources` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from moa_core.errors import UserError, first_line


def fetch(name: str, folder: Path) -> Path:
    """Write a Hub data set's training split into `folder`, once; return the folder.

    Rows need `messages`, a chat, or `text`. UserError if the data set cannot be had or has neither.
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
        raise UserError(f"The data set {name} has rows with neither `messages` nor `text`.")
    os.replace(part, path)
    return folder


def _training_split(name: str) -> Iterable[Mapping[str, Any]]:
    import datasets

    try:
        splits = datasets.get_dataset_split_names(name)
        # UltraChat-200k calls its split for fine-tuning train_sft.
        wanted = next((s for s in ("train_sft", "train") if s in splits), splits[0])
        return datasets.load_dataset(name, split=wanted)
    except Exception as error:  # the library raises many kinds; all mean: not to be had
        raise UserError(
            f"{name} is neither a folder nor a data set that the Hub gave us: {first_line(error)}"
        ) from error


def _kept(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The part of a row that can be trained on."""
    if row.get("messages"):
        turns = [{"role": m["role"], "content": m["content"]} for m in row["messages"]]
        return {"messages": turns}
    return {"text": row["text"]} if row.get("text") else None
