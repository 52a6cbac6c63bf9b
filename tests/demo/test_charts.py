"""Figures read from traces."""

import pytest

from demo.common.charts import accepted_lengths, cumulative_latency, phases
from moa_core.decoding.trace import Drafted, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree


def trace_of(*gained):
    return Trace(
        events=[
            Verified(i, tuple(range(1, n)), 9, (), (), (), (0,) * n, 0.1, 0)
            for i, n in enumerate(gained)
        ]
    )


def test_bars_stack_to_the_tokens_gained():
    figure = accepted_lengths(trace_of(3, 1, 4))
    drafts, bonus = figure.data
    assert list(drafts.x) == [1, 2, 3]
    assert list(drafts.y) == [2, 0, 3] and list(bonus.y) == [1, 1, 1]
    assert figure.layout.barmode == "stack"


def test_the_mean_is_tau():
    [line] = accepted_lengths(trace_of(3, 1, 5)).layout.shapes
    assert line.y0 == line.y1 == pytest.approx(3)


def test_the_ground_is_transparent_for_both_themes():
    layout = accepted_lengths(trace_of(2)).layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_a_trace_without_cycles_is_an_empty_figure():
    figure = accepted_lengths(Trace())
    assert all(len(bars.x) == 0 for bars in figure.data) and not figure.layout.shapes


def timed():
    """A prefill of 0.5 s and two cycles, of 3 tokens and of 1."""
    bare = DraftTree.only_root(9)
    return Trace(
        events=[
            Prefilled((1, 2), 9, 1, 0.5),
            Drafted(0, 2, bare, 0.1),
            Verified(0, (1, 2), 9, (), (), (), (9, 9, 9), 0.2, 0.05),
            Drafted(1, 5, bare, 0.1),
            Verified(1, (), 9, (), (), (), (9,), 0.3, 0.05),
        ]
    )


def test_latency_adds_up_over_tokens():
    [line] = cumulative_latency(timed()).data
    assert list(line.x) == [1, 4, 5]
    assert list(line.y) == pytest.approx([0.5, 0.85, 1.3])


def test_phases_of_each_cycle_are_milliseconds():
    draft, verify, other = phases(timed()).data
    assert list(draft.y) == pytest.approx([100, 100])
    assert list(verify.y) == pytest.approx([200, 300])
    assert list(other.y) == pytest.approx([50, 50])
    assert len({bars.marker.pattern.shape for bars in (draft, verify, other)}) == 3


def test_charts_say_what_they_show():
    made = [chart(timed()) for chart in (accepted_lengths, cumulative_latency, phases)]
    assert [figure.layout.meta["words"] for figure in made] == [
        "Tokens gained in each cycle: 2 cycles, from 1 to 3, mean 2.00.",
        "Cumulative latency: the first token after 0.500 s, all 5 after 1.300 s.",
        "Where each cycle’s time goes: 2 cycles, on average draft 100.00 ms, verify 250.00 ms, "
        "other 50.00 ms.",
    ]
    words = accepted_lengths(trace_of(4)).layout.meta["words"]
    assert words == "Tokens gained in each cycle: 1 cycle, from 4 to 4, mean 4.00."
    empty = [chart(Trace()) for chart in (accepted_lengths, cumulative_latency, phases)]
    assert [figure.layout.meta["words"].split(": ")[1] for figure in empty] == [
        "no cycle.", "no token.", "no cycle.",
    ]  # fmt: skip


def test_a_cycle_that_was_drafted_but_not_verified_is_left_out():
    trace = timed()
    trace.events.append(Drafted(2, 6, DraftTree.only_root(9), 0.1))
    assert all(len(bars.x) == len(bars.y) == 2 for bars in phases(trace).data)
