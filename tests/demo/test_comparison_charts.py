"""Figures read from a comparison's rows and traces."""

import pytest

from demo.common.methods import colour
from demo.compare.charts import bars, clock, cumulative, phases
from demo.compare.rows import middle, rows
from tests.demo.comparisons import comparison_of, row_of, trace_of, usual_comparison

NAMES = ["MoA N=1", "EAGLE-2", "Vanilla"]


@pytest.mark.parametrize("kind", ["tau", "rate", "latency"])
def test_bars_are_the_rows_with_their_ranges(kind):
    found = rows(usual_comparison())
    bar, text = bars(found, kind).data
    spreads = [getattr(row, kind) for row in found]
    assert list(bar.y) == list(text.y) == NAMES
    assert list(bar.x) == [spread.middle for spread in spreads]
    highs = [value + more for value, more in zip(bar.x, bar.error_x.array, strict=True)]
    lows = [value - less for value, less in zip(bar.x, bar.error_x.arrayminus, strict=True)]
    assert highs == pytest.approx([spread.high for spread in spreads])
    assert lows == pytest.approx([spread.low for spread in spreads])
    assert bar.error_x.visible is (kind != "tau")
    assert list(bar.marker.color) == [colour(row.method) for row in found]


def test_ratios_are_against_eagle_2_where_it_is_there():
    found = rows(usual_comparison())
    assert list(bars(found, "tau").data[1].text) == [
        " 3.00<br> 1.50 × EAGLE-2", " 2.00", " 1.00<br> 0.50 × EAGLE-2",
    ]  # fmt: skip
    assert list(bars(found[::2], "tau").data[1].text) == [" 3.00", " 1.00"]
    slower = bars(found, "latency").data[1].text[2]
    assert "1.00 × EAGLE-2" in slower


def test_what_was_not_measured_is_left_out():
    bar, _ = bars([row_of("moa-n1"), row_of("eagle2", None, None)], "rate").data
    assert list(bar.y) == ["MoA N=1"]
    assert len(bars([row_of("eagle2", None, None)], "tau").data[0].x) == 0


def test_time_adds_up_over_prefill_and_cycles():
    tokens, seconds = clock(trace_of([3, 2], 0.1))
    assert tokens == [1, 4, 6]
    assert seconds == pytest.approx([0.05, 0.15, 0.25])


def test_time_is_drawn_for_the_middle_run_of_each_with_a_dash_of_its_own():
    comparison = usual_comparison()
    lines = cumulative(comparison).data
    assert [line.name for line in lines] == NAMES
    for line, traces in zip(lines, comparison.traces.values(), strict=True):
        assert [list(line.x), list(line.y)] == list(clock(middle(traces)))
    assert len({line.line.dash for line in lines}) == 3


def test_a_cycles_time_is_stacked_by_phase():
    found = rows(usual_comparison())
    draft, verify, other, whole = phases(found).data
    assert [trace.name for trace in (draft, verify, other)] == ["draft", "verify", "other"]
    assert list(draft.x) == pytest.approx([22, 20, 10])
    assert list(verify.x) == pytest.approx([77, 70, 35])
    assert list(other.x) == pytest.approx([11, 10, 5])
    assert list(whole.x) == pytest.approx([110, 100, 50]) and whole.text[0] == " 110.0 ms"
    assert len({trace.marker.pattern.shape for trace in (draft, verify, other)}) == 3


def test_a_method_without_cycles_has_no_bar_of_them():
    found = rows(comparison_of(moa_n1=[trace_of([])], vanilla=[trace_of([1])]))
    assert list(phases(found).data[0].y) == ["Vanilla"]


def test_charts_say_what_they_show():
    comparison = usual_comparison()
    found = rows(comparison)
    rate, parts = bars(found, "rate"), phases(found)
    assert bars(found, "tau").layout.meta["words"] == (
        "Acceptance length τ, tokens per target forward: MoA N=1 3.00, EAGLE-2 2.00, Vanilla 1.00."
    )
    low, high = (f"{value:.1f}" for value in (found[0].rate.low, found[0].rate.high))
    assert (
        f"MoA N=1 {found[0].rate.middle:.1f} ({low} to {high}), EAGLE-2"
        in (rate.layout.meta["words"])
    )
    assert (
        cumulative(comparison)
        .layout.meta["words"]
        .startswith("Time until each token: MoA N=1 7 after ")
    )
    assert (
        "milliseconds: MoA N=1 draft 22.00 verify 77.00 other 11.00, EAGLE-2 draft 20.00"
        in (parts.layout.meta["words"])
    )


def test_the_ground_is_transparent_for_both_themes():
    comparison = usual_comparison()
    found = rows(comparison)
    for figure in (bars(found, "tau"), cumulative(comparison), phases(found)):
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
