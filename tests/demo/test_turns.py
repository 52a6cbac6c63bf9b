"""Runs in turn: their order, their warm-ups, what is kept and what is refused. No weights."""

import pytest

from demo.common.turns import Counted, check_repeats, take, turns
from demo.engine import Run
from moa_core.decoding.trace import Finished, Prefilled, Trace
from moa_core.errors import UserError


def run_of(tokens, reason="length"):
    """A run that is nothing but its first token, again and again."""
    trace = Trace()
    events = [Prefilled((1,), 9, 0.5, 0.1)] * tokens
    return Run(None, [1], trace, trace.record(iter([*events, Finished(reason, {})])))


def test_each_warms_up_and_then_another_one_is_first_in_each_repeat():
    steps = turns(("a", "b", "c"), 2)
    assert [step.method for step in steps] == list("abc" + "abc" + "bca")
    assert [step.phase for step in steps] == ["warm-up"] * 3 + ["run"] * 6
    assert [(step.repeat, step.run) for step in steps[3:]] == [
        (1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6),
    ]  # fmt: skip
    assert {(step.repeats, step.runs) for step in steps[3:]} == {(2, 6)}
    [plain] = [step for step in turns("a", 1, plain=True) if step.phase == "plain"]
    assert plain.method == "vanilla" and "text that all others must write" in plain.words


def test_warm_ups_are_short_and_only_the_others_are_kept():
    lengths, kept = [], []

    def prepare(method, length):
        lengths.append(length)
        return run_of(length)

    said = list(take(turns("ab", 2), 40, prepare, lambda step, trace: kept.append(step.run)))
    assert lengths == [16] * 2 + [40] * 4 and kept == [1, 2, 3, 4]
    assert [step.share for step in said] == pytest.approx(
        [done / 192 for done in (0, 16, 32, 72, 112, 152)]
    )


def test_progress_is_told_between_runs_and_now_and_then_within_them():
    ticks = iter(range(10**6))
    steps = take(turns("a", 1), 20, lambda _, length: run_of(length), lambda *_: None,
                 clock=lambda: next(ticks) / 10)  # fmt: skip
    shares = [step.share for step in steps]
    assert shares == sorted(shares) and 4 < len(shares) < 36


def test_a_stopped_run_is_the_last_and_is_not_kept():
    kept, reasons = [], iter(["length", "length", "stopped"])
    steps = take(turns("a", 3), 20, lambda _, length: run_of(length, next(reasons)),
                 lambda step, _: kept.append(step.run))  # fmt: skip
    assert [step.run for step in steps] == [0, 1, 2] and kept == [1]


def test_whoever_has_stopped_begins_nothing():
    begun = []
    steps = take(turns("a", 3), 20, lambda *run: begun.append(run), begun.append, lambda: True)
    assert [step.phase for step in steps] == ["warm-up"] and begun == []


@pytest.mark.parametrize("count", [0, 6, True, 1.5, "2", None])
def test_other_numbers_of_repeats_are_refused(count):
    with pytest.raises(UserError, match="1 to 5"):
        check_repeats(count)


def test_counted_runs_are_those_that_were_finished():
    made = Counted()
    made.plan, made.traces = type("Plan", (), {"repeats": 3}), {"a": [Trace()] * 2, "b": []}
    assert (made.finished, made.wanted) == (2, 6)
