"""A killed run goes on as if nothing had happened; what it refuses; what it writes down."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from moa_core.errors import UserError
from moa_core.train import loop
from moa_core.train.drafters import Plan, export
from moa_core.train.loop import Schedule, TrainingRun
from tests.moa_core.train.conftest import PROMPTS, logged, train
from tests.models import speaking_target

METHODS = ("moa-n0", "moa-n1", "eagle2")
UPDATES = 12
USUAL = Schedule(UPDATES, 3e-3, warmup=3)
MINUTES = replace(USUAL, updates=None, minutes=3)


class Killed(Exception):
    """In the middle of an update."""


def drafters(
    own: Path, out: Path, schedule: Schedule = USUAL, seed: int = 0, made: int = 0, **more: Any
) -> dict[str, dict[str, torch.Tensor]]:
    """The weights of three drafters, trained in a folder.

    made  the seed of their target
    more  of the machine
    """
    plan = Plan(PROMPTS, METHODS, rows=4, row_length=48, seed=seed)
    train(speaking_target(seed=made), own, out, schedule, plan, save_every=40.0, **more)
    return checkpoint(out)["models"]


def checkpoint(out: Path) -> dict[str, Any]:
    return torch.load(out / "run" / "checkpoint.pt", weights_only=True)


@contextmanager
def watched(kill: int | None = None) -> Iterator[dict[int, int | None]]:
    """The length that each update took the run to have; one of them is killed."""
    advance, planned = TrainingRun._advance, dict[int, int | None]()

    def watching(self: TrainingRun, *given: Any) -> Any:
        if self.update == kill:
            raise Killed
        planned[self.update] = self.updates
        return advance(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingRun, "_advance", watching)
        with nullcontext() if kill is None else pytest.raises(Killed):
            yield planned


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which an update takes ten seconds or more, so that every fourth one is saved."""
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=count(10.0, 10.0).__next__))


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize(("kills", "muon"), [((1, 6, UPDATES - 1), False), ((7,), True)])
def test_a_killed_run_ends_as_an_uninterrupted_one_and_is_done_then(own, tmp_path, kills, muon):
    schedule, out = replace(USUAL, muon=muon), tmp_path / "out"
    expected = drafters(own, tmp_path / "straight", schedule)
    for number in kills:
        with watched(number):
            drafters(own, out, schedule)
    with watched() as last:
        found = drafters(own, out, schedule)
    assert 0 < min(last) <= max(kills)
    for name, weights in expected.items():
        for key, weight in weights.items():
            assert torch.equal(found[name][key], weight), key
    with watched() as none:  # it has nothing left to do
        drafters(own, out, schedule)
    assert not none
    *_, entry = entries = logged(out)
    assert [one["update"] for one in entries] == [*range(1, UPDATES + 1)]  # each once
    assert set(METHODS) <= set(entry)
    assert not (out / "run" / "checkpoint.part").exists()


def test_accumulated_gradients_are_those_of_the_whole_batch(own, tmp_path):
    """Rows hold unequal numbers of reply tokens: a mean of their means would be another loss."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    one = drafters(own, whole, replace(USUAL, updates=5))
    other = drafters(own, parts, replace(USUAL, updates=5), parts=2)
    for name in METHODS:
        for ours, theirs in zip(logged(whole), logged(parts), strict=True):
            assert ours[name] == pytest.approx(theirs[name], abs=2e-5)
        # With AVX2 alone, one number of 2,048 differed by 8.7e-6.
        torch.testing.assert_close(one[name], other[name], atol=1e-5, rtol=0)


def test_a_checkpoint_of_another_run_is_refused_and_a_damaged_one_is_told(own, tmp_path):
    once = replace(USUAL, updates=1)
    drafters(own, tmp_path, once)
    path, state = tmp_path / "run" / "checkpoint.pt", checkpoint(tmp_path)
    for other, more, words in (
        ({"seed": 1}, {}, "seed"), ({"schedule": USUAL}, {}, "schedule"),
        ({"made": 1}, {}, "target"), ({}, {"more": 1}, "fewer"),
    ):  # fmt: skip
        torch.save({**state, "recipe": state["recipe"] | more}, path)
        with pytest.raises(UserError, match=rf"other settings \({words}\)"):
            drafters(own, tmp_path, **{"schedule": once, **other})
    with pytest.raises(UserError, match="drafters for another target"):
        export(speaking_target(seed=1), tmp_path, tmp_path / "exported")
    path.write_bytes(b"PK")
    for again in (partial(drafters, own), partial(export, speaking_target(), tmp_path)):
        with pytest.raises(UserError, match=r"checkpoint\.pt cannot be read, so start anew"):
            again(tmp_path)


def test_a_full_disk_is_told_and_the_last_checkpoint_is_kept(own, tmp_path, monkeypatch):
    drafters(own, tmp_path, stop_at=1)

    def full(_state: object, path: Path) -> None:
        path.write_bytes(b"PK")
        raise RuntimeError("[enforce fail] unexpected pos 576 vs 534")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"checkpoint\.pt cannot be written"):
        drafters(own, tmp_path, stop_at=2)
    assert checkpoint(tmp_path)["update"] == 1


def test_words_are_counted_anew_if_another_number_is_asked_for(own, tmp_path):
    plan = Plan(PROMPTS, METHODS[:1], rows=4, row_length=48)
    for words in (20, 30):
        with watched(0):
            train(speaking_target(), own, tmp_path, 1, replace(plan, words=words))
        assert len(np.load(tmp_path / "words.npy")) == words
    train(speaking_target(), own, tmp_path, 1, plan)
    assert not (tmp_path / "words.npy").exists()


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("kills", [(), (7, 11)])
def test_minutes_end_a_run_that_was_planned_by_its_pace(own, tmp_path, kills):
    for number in kills:
        with watched(number):
            drafters(own, tmp_path, MINUTES)
    with watched() as planned:
        drafters(own, tmp_path, MINUTES)
    assert (min(planned) > 0) == bool(kills)
    last = checkpoint(tmp_path)
    assert last["seconds"] == pytest.approx(180, rel=0.1) and last["update"] == last["updates"]
    assert all(abs(found - last["update"]) <= 3 for at, found in planned.items() if at > 4)


def test_the_rate_rises_then_falls_to_its_floor_and_stays_there():
    schedule = Schedule(100, 1.0, warmup=10)
    factors = [schedule.factor(update, 100) for update in range(100)]
    assert factors[0] == pytest.approx(0.1) and factors[9] == 1.0
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert [schedule.factor(late, 100) for late in (100, 150)] == pytest.approx([0.05, 0.05])
