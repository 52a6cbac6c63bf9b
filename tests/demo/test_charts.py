"""Figures read from traces."""

import pytest

from demo.charts import accepted_lengths
from moa_core.trace import Trace, Verified


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
