"""A file of a target's own text, short trainings on it and their logs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train import loop, own_text
from moa_core.train.drafters import Plan, train_drafters
from moa_core.train.loop import Machine, Schedule
from tests.models import tiny_tokenizer

PROMPTS = Path("prompts.jsonl")  # there is no such file: they are answered already
NAMES = ("fox", "cat", "dog", "hen", "cow")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Seventy answers, as if the target had written them."""
    texts, tokenizer, path = [], tiny_tokenizer(), tmp_path / "own.npz"
    for n, name in enumerate(NAMES * 14):
        asked = prompt_ids(tokenizer, f"What is {n} + 4?")
        reply = tokenizer(f"It is {n + 4}, said the {name}, and sat.")["input_ids"]
        mask = [False] * len(asked) + [True] * (len(reply) + 1)
        texts.append(own_text.Encoded([*asked, *reply, tokenizer.eos_token_id], mask))
    own_text.save(path, texts)
    return path


def train(
    target: Target, own: Path, out: Path, schedule: Schedule | int, plan: Plan, rate: float = 5e-3,
    **more: Any,
) -> None:  # fmt: skip
    """Drafters, in this process, on answers that are there already.

    schedule  or a number of updates, at this rate
    more      of the machine
    """
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(own, out / "own_text.npz")
    if isinstance(schedule, int):
        schedule = Schedule(schedule, rate, warmup=2)
    train_drafters(target, out, schedule, plan, Machine(workers=1, **more))


def logged(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "run/log.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def every_update_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_EVERY", 1)
