"""Runs of several methods in turns: their order, their warm-ups, what is kept and refused."""

import pytest

from demo.common import measure as measuring
from demo.common.measure import Measured, measure
from demo.engine import Engine, Request
from tests.demo.conftest import PROMPT

METHODS = ("moa-n0", "moa-n1", "vanilla")


def test_each_warms_up_and_then_another_one_is_first_in_each_repeat(loads, monkeypatch):
    monkeypatch.setattr(measuring, "INTERVAL", 1e9)  # one word a run
    found, requests = Measured(repeats=2), {name: Request(PROMPT, name, 20) for name in METHODS}
    said = list(measure(Engine(), requests, found))
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
    monkeypatch.setattr(measuring, "INTERVAL", 0)  # a word an event
    shares = [step.share for step in measure(Engine(), requests, Measured())]
    assert shares == sorted(shares) and len(shares) > 108 and shares[-1] == 1


def test_a_measurement_that_gave_way_goes_on_where_it_was(loads, monkeypatch):
    monkeypatch.setattr(measuring, "INTERVAL", 1e9)
    found, requests = Measured(), {name: Request(PROMPT, name, 20) for name in METHODS}
    whole, loads[:] = list(measure(Engine(), requests, Measured())), []

    def begun():  # counted runs
        return sum(getattr(one, "max_new_tokens", 0) == 20 for one in loads)

    def said(stopped):
        return list(measure(Engine(), requests, found, lambda: begun() >= stopped))

    assert (said(1), said(3), said(9)) == (whole[:4], whole[:5], whole[4:])
    assert found.finished == found.wanted == 3
