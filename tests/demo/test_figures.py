"""Figures of a run, counted event by event."""

import pytest

from demo.figures import Figures, stats
from moa_core.trace import Drafted, Finished, Prefilled, Trace, Verified
from moa_core.tree import DraftTree

TREE = DraftTree((9, 4, 5), (-1, 0, 1), (0, 1, 2), (0.0, -0.1, -0.2))


def events(*gained):
    yield Prefilled((1, 2), 9, 0.5, 0.25)
    for cycle, count in enumerate(gained):
        yield Drafted(cycle, 2, TREE, 0.1)
        yield Verified(cycle, (1, 2)[: count - 1], 7, (), (), (), (7,) * count, 0.3, 0.1)


def test_sums_over_cycles():
    found = Figures(events(3, 1)).as_dict()
    assert found.pop("shares") == pytest.approx({"draft": 0.2, "verify": 0.6, "other": 0.2})
    assert found == pytest.approx(
        {
            "tokens": 5, "rate": 4.0, "tau": 2.0, "acceptance": 0.5, "drafted": 4, "calls": 3,
            "cycles": 2, "prefill": 0.25,
        }
    )  # fmt: skip


def test_they_agree_with_the_trace():
    trace = Trace(
        events=[*events(3, 2, 1), Finished("length", {"draft": 1, "verify": 2, "other": 1})]
    )
    found = stats(trace)
    assert found["tau"] == trace.tau and found["rate"] == trace.tokens_per_second
    assert found["calls"] == trace.target_calls and found["tokens"] == len(trace.output_ids)
    assert found["prefill"] == 0 and found["shares"]["verify"] == 0.5  # the clock's last word


def test_before_anything_happened_there_is_no_figure():
    found = Figures().as_dict()
    assert found["tokens"] == 0 and found["rate"] is found["tau"] is found["shares"] is None
    assert Figures([Prefilled((1,), 2, 1, 0.1)]).as_dict()["rate"] is None


def test_a_run_that_drafts_nothing_has_no_acceptance_rate():
    bare = DraftTree.only_root(9)
    found = Figures([Drafted(0, 1, bare, 0), Verified(0, (), 1, (1,), (1,), (1,), (1,), 1, 0)])
    assert found.as_dict()["acceptance"] is None and found.as_dict()["tau"] == 1
