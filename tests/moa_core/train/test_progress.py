"""Acceptance measured during training: when, of what, and which weights are kept for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from moa_core.drafters.base import Drafter
from moa_core.text import prompt_ids
from moa_core.train import measure as module
from moa_core.train.drafters import Plan, train_drafters
from moa_core.train.init import fresh
from moa_core.train.loop import Schedule
from moa_core.train.measure import Progress
from tests.models import speaking_target

METHODS = ("moa-n0", "eagle2", "medusa")


def measured(monkeypatch: pytest.MonkeyPatch, values: dict[str, list[float]]) -> None:
    """Let every drafter be accepted as it is said to be, measurement by measurement."""
    left: dict[str, Iterator[float]] = {name: iter(of) for name, of in values.items()}

    def acceptance(target: Any, drafter: Drafter, *rest: object) -> dict[str, Any]:
        return {"tau": next(left[drafter.name])}

    monkeypatch.setattr(module, "acceptance", acceptance)


@pytest.mark.parametrize(("updates", "times"), [(1440, 8), (100, 1), (7, 3), (5, 8)])
def test_measurements_are_spread_evenly_and_the_last_one_is_at_the_end(
    updates: int, times: int
) -> None:
    watch = Progress(speaking_target(), {}, {}, times)
    due = [update for update in range(1, updates + 1) if watch.due(update, updates)]
    assert len(due) == min(times, updates) and due[-1] == updates
    gaps = [after - before for before, after in zip([0, *due], due, strict=False)]
    assert max(gaps) - min(gaps) <= 1
    assert not watch.due(3, None)  # how long the run will be is not known yet


def test_the_weights_accepted_most_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    target = speaking_target()
    drafters = {name: fresh(name, target, 0) for name in METHODS}
    watch = Progress(target, drafters, {})
    values = {"moa-n0": [1.5, 2.5, 2.0], "eagle2": [1.0, 1.1, 1.3], "medusa": [2.0, 1.0, 2.0]}
    measured(monkeypatch, values)
    for place in range(3):
        for drafter in drafters.values():
            for weight in drafter.net.parameters():
                weight.data.fill_(place)
        seconds = dict.fromkeys(METHODS, 10.0 * (place + 1))
        found = watch.measure(100 * (place + 1), seconds)
        assert found == {name: of[place] for name, of in values.items()}
    again = Progress(target, drafters, {})
    again.load_state_dict(watch.state_dict())
    again.restore_best()
    kept = {name: next(d.net.parameters()).unique().item() for name, d in drafters.items()}
    assert kept == {"moa-n0": 1, "eagle2": 2, "medusa": 2}  # of two alike, the later one
    assert again.metrics["moa-n0"][1] == {"updates": 200, "seconds": 20.0, "tau": 2.5}


@pytest.mark.usefixtures("threads")
def test_training_records_how_acceptance_grew(data: Path, tmp_path: Path) -> None:
    target = speaking_target()
    prompts = {"dialogue": [prompt_ids(target.tokenizer, "What is 3 + 4?")]}
    train_drafters(
        target, data, tmp_path / "tokenizer", tmp_path / "out",
        Schedule(6, {"": 1e-3, "eagle2": 5e-4}), Plan(METHODS, rows=2, row_length=48, tasks=6),
        workers=1, accelerator=Accelerator(cpu=True), watched=prompts, watch_times=3,
    )  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "out/run/log.jsonl").read_text().splitlines()]
    logged = [line["measured"] for line in lines if "measured" in line]
    for name in METHODS:
        config = json.loads((tmp_path / "out" / name / "config.json").read_text())
        training = config["drafter"]["training"]
        metrics = training["metrics"]
        assert [entry["updates"] for entry in metrics] == [2, 4, 6]
        assert [entry["tau"] for entry in metrics] == [line[name] for line in logged]
        assert all(entry["tau"] >= 1 for entry in metrics)
        seconds = [entry["seconds"] for entry in metrics]
        assert 0 < seconds[0] <= seconds[1] <= seconds[2]
        assert training["rate"] == (5e-4 if name == "eagle2" else 1e-3)
        weights = load_file(tmp_path / "out" / name / "model.safetensors")
        assert all(torch.isfinite(weight).all() for weight in weights.values())
