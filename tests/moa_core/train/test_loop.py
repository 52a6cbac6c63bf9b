"""A killed run goes on as if nothing had happened; what it refuses; what it writes down."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from moa_core.errors import UserError
from moa_core.train import loop
from moa_core.train.batches import Batches
from moa_core.train.drafters import Plan, fresh, trainee
from moa_core.train.loop import Machine, Schedule, TrainingRun
from moa_core.train.losses import Weights
from moa_core.train.masks import on_policy
from moa_core.train.teacher import teach
from tests.moa_core.train.conftest import PROMPTS, logged, train
from tests.models import speaking_target, tiny_tokenizer

METHODS = ("moa-n0", "moa-n1", "eagle2")
UPDATES = 12


class Killed(Exception):
    """In the middle of an update."""


class Training:
    """A run of three drafters in a folder; made anew, it is a new process."""

    def __init__(
        self, own: Path, folder: Path, updates: int | None = UPDATES, seed: int = 0, **more: Any
    ) -> None:
        self.target = speaking_target()
        self.drafters = {name: fresh(name, self.target, seed) for name in METHODS}
        models: dict[str, Any] = {
            name: trainee(drafter, self.target, Weights())
            for name, drafter in self.drafters.items()
        }
        batches = Batches(own, tiny_tokenizer(), 4, 48, seed)
        self.run = TrainingRun(
            folder, models, batches, Schedule(updates, 3e-3, warmup=3, **more),
            Machine(save_every=40.0), {"seed": seed},
        )  # fmt: skip

    def train(self, before: Callable[[int], None] = lambda update: None) -> dict[str, Any]:
        def prepare(batch: Any, update: int) -> tuple[Any, ...]:
            before(update)
            generator = torch.Generator().manual_seed(update)
            return teach(self.target, batch, {1}), on_policy(batch, generator)

        self.run.train(prepare)
        return {
            f"{name}.{key}": value.clone()
            for name, drafter in self.drafters.items()
            for key, value in drafter.net.state_dict().items()
        }


def drafters(own: Path, out: Path, updates: int, **more: Any) -> None:
    plan = Plan(PROMPTS, METHODS, rows=4, row_length=48)
    train(speaking_target(), own, out, updates, plan, 3e-3, **more)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which an update takes ten seconds or more, so that every fourth one is saved."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=monotonic))


def kill_at(number: int) -> Callable[[int], None]:
    def before(update: int) -> None:
        if update == number:
            raise Killed

    return before


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize(("kills", "muon"), [((1, 6, UPDATES - 1), False), ((7,), True)])
def test_a_killed_run_ends_as_an_uninterrupted_one_and_is_done_then(own, tmp_path, kills, muon):
    expected = Training(own, tmp_path / "straight", muon=muon).train()
    for number in kills:
        with pytest.raises(Killed):
            Training(own, tmp_path / "run", muon=muon).train(kill_at(number))
    last = Training(own, tmp_path / "run", muon=muon)
    assert last.run.update <= max(kills) and (max(kills) < 4 or last.run.update > 0)
    found = last.train()
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name
    assert last.run.update == UPDATES
    again = Training(own, tmp_path / "run", muon=muon)  # it has nothing left to do
    after = again.train(kill_at(UPDATES))
    assert all(torch.equal(found[name], after[name]) for name in found)
    entry = logged(tmp_path)[-1]
    assert entry["update"] == UPDATES and set(METHODS) <= set(entry)
    assert not (tmp_path / "run" / "checkpoint.part").exists()


def test_accumulated_gradients_are_those_of_the_whole_batch(own, tmp_path):
    """Rows hold unequal numbers of reply tokens: a mean of their means would be another loss."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    drafters(own, whole, 5)
    drafters(own, parts, 5, parts=2)
    one, other = (
        torch.load(out / "run/checkpoint.pt", weights_only=True)["models"] for out in (whole, parts)
    )
    for name in METHODS:
        for ours, theirs in zip(logged(whole), logged(parts), strict=True):
            assert ours[name] == pytest.approx(theirs[name], abs=2e-5)
        # With AVX2 alone, one number of 2,048 differed by 8.7e-6.
        torch.testing.assert_close(one[name], other[name], atol=1e-5, rtol=0)


def test_a_checkpoint_of_another_run_is_refused(own, tmp_path):
    Training(own, tmp_path / "run", updates=1).train()
    path = tmp_path / "run" / "checkpoint.pt"
    for other, more, words in (
        ({"seed": 1}, {}, "seed"), ({"updates": 2}, {}, "schedule"), ({}, {"more": 1}, "fewer"),
    ):  # fmt: skip
        state = torch.load(path, weights_only=True)
        state["recipe"] |= more
        torch.save(state, path)
        with pytest.raises(UserError, match=rf"other settings \({words}\)"):
            Training(own, tmp_path / "run", **{"updates": 1, **other})
    del state["recipe"]["more"]
    state["recipe"]["gone"] = 0  # not used then: it says nothing
    torch.save(state, path)
    Training(own, tmp_path / "run", updates=1)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("kills", [(), (7, 11)])
def test_minutes_end_a_run_that_was_planned_by_its_pace(own, tmp_path, kills):
    for number in kills:
        with pytest.raises(Killed):
            Training(own, tmp_path / "run", None, minutes=3).train(kill_at(number))
    made, planned = Training(own, tmp_path / "run", None, minutes=3), {}
    last = made.run
    assert (last.update > 0) == bool(kills)
    made.train(lambda update: planned.update({update: last.updates}))
    assert last.seconds == pytest.approx(180, rel=0.1) and last.update == last.updates
    assert all(abs(found - last.update) <= 3 for update, found in planned.items() if update > 4)
    assert (tmp_path / "run" / "checkpoint.pt").exists()


def test_the_rate_rises_then_falls_to_its_floor_and_stays_there():
    schedule = Schedule(100, 1.0, warmup=10)
    factors = [schedule.factor(update, 100) for update in range(100)]
    assert factors[0] == pytest.approx(0.1) and factors[9] == 1.0
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert [schedule.factor(late, 100) for late in (100, 150)] == pytest.approx([0.05, 0.05])


def test_drafters_draw_the_same_boundaries_after_a_pause(own, tmp_path):
    straight, paused = tmp_path / "straight", tmp_path / "paused"
    drafters(own, straight, 10)
    drafters(own, paused, 10, stop_at=4)
    early = (paused / "moa-n1" / "model.safetensors").read_bytes()
    drafters(own, paused, 10)
    for name in METHODS:
        one, other = ((out / name / "model.safetensors").read_bytes() for out in (straight, paused))
        assert one == other != early
