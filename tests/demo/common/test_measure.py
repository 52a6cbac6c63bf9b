"""Runs of several methods in turns: their order, their warm-ups, what is kept and refused."""

import pytest

from demo.common import measure as measuring
from demo.common.measure import Measured, measure
from demo.engine import Engine, Request
from tests.demo.conftest import PROMPT

METHODS = ("moa-n0", "moa-n1", "vanilla")


def made(repeats=2, tokens=20, stop=lambda _: False, engine=None):
    """The runs that were kept, and what was said on the way."""
    found = Measured()
    requests = {name: Request(PROMPT, name, tokens) for name in METHODS}
    said = measure(engine or Engine(), requests, repeats, found, lambda: stop(found))
    return found, said


def test_each_warms_up_and_then_another_one_is_first_in_each_repeat(loads, monkeypatch):
    monkeypatch.setattr(measuring, "INTERVAL", 1e9)  # one word a run
    found, said = made()
    said = list(said)
    assert [step.phase for step in said] == ["warm-up"] * 3 + ["run"] * 6
    order = [METHODS.index(step.method) for step in said]
    assert order == [0, 1, 2, 0, 1, 2, 1, 2, 0]
    assert [(one.repeat, one.run, one.repeats, one.runs) for one in said[3:]] == [
        (1 + at // 3, 1 + at, 2, 6) for at in range(6)
    ]
    lengths = [one.max_new_tokens for one in loads if hasattr(one, "max_new_tokens")]
    assert lengths[-9:] == [16] * 3 + [20] * 6
    assert [step.share for step in said] == pytest.approx(
        [done / 168 for done in (0, 16, 32, 48, 68, 88, 108, 128, 148)]
    )
    assert {name: len(runs) for name, runs in found.traces.items()} == dict.fromkeys(METHODS, 2)
    assert found.finished == found.wanted == 6 and found.plain == [9] * 20


def test_a_run_that_was_stopped_half_way_is_not_counted(loads, monkeypatch):
    monkeypatch.setattr(measuring, "INTERVAL", 0)
    engine, stopped = Engine(), []
    found, said = made(tokens=500, stop=lambda _: bool(stopped), engine=engine)
    for step in said:
        if step.run == 2 and step.share > 0.3:
            stopped.append(1)
    assert [len(runs) for runs in found.traces.values()] == [1, 0, 0] and not engine.busy
