"""A data folder, short trainings and their logs."""

import json
from pathlib import Path
from typing import Any

import pytest

from moa_core.model.target import Target
from moa_core.train import loop
from moa_core.train.corpus import END_OF_DOCUMENT, chat
from moa_core.train.drafters import Plan, train_drafters
from moa_core.train.loop import Machine, Schedule

NAMES = ("fox", "cat", "dog", "hen", "cow")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Plain texts and chats."""
    folder = tmp_path / "data"
    folder.mkdir()
    texts = [f"The {name} ran home on day {day}. It sat." for name in NAMES for day in range(8)]
    (folder / "texts.txt").write_text(f"\n{END_OF_DOCUMENT}\n".join(texts))
    talks = [
        chat(f"What is {n} + 4?", f"It is {n + 4}, said the {name}.")
        for n, name in enumerate(NAMES * 6)
    ]
    lines = [json.dumps({"messages": messages}) for messages in talks]
    (folder / "talks.jsonl").write_text("\n".join(lines))
    return folder


def train(
    target: Target, data: Path, out: Path, updates: int, plan: Plan, rate: float = 5e-3, **more: Any
) -> None:
    """Drafters, in this process. more: of the machine."""
    train_drafters(
        target, data, out, Schedule(updates, rate, warmup=2), plan, Machine(workers=1, **more)
    )


def logged(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "run/log.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def every_update_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_EVERY", 1)
