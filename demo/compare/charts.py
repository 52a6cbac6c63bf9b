"""Charts of a comparison, from its rows and traces."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from demo.common.charts import PATTERNS, bars, beside, chart, rows_down
from demo.common.methods import RIVAL, VANILLA, colour
from demo.common.spread import Spread
from demo.compare.rows import Row, against, digits

CHARTS = {  # title, axis
    "tau": ("Acceptance length τ", "tokens per target call"),
    "rate": ("Speed: higher is better", "tokens per second, prefill included"),
}
ROOM = 1.6  # times the longest bar: part of the width is kept for what is written after it


def figures(rows: Sequence[Row], kind: str) -> go.Figure:
    """A bar per method for tau or rate; whiskers from the lowest to the highest repeat.

    Beside each bar its figure, and how many times EAGLE-2's that is.
    """
    drawn = [(row, spread) for row in rows if (spread := getattr(row, kind)) is not None]
    rival = against(rows, RIVAL)
    base = getattr(rival, kind) if rival else None
    names, spreads = [row.label for row, _ in drawn], [spread for _, spread in drawn]
    ranges = [f"{digits(one.low, kind)} to {digits(one.high, kind)}" for one in spreads]
    hover = [f"{row.label}: {digits(one.middle, kind)}<br>{row.runs} repeats: {ends}"
             for (row, one), ends in zip(drawn, ranges, strict=True)]  # fmt: skip
    said = [f"{row.label} {digits(one.middle, kind)}{f' ({ends})' if one.known else ''}"
            for (row, one), ends in zip(drawn, ranges, strict=True)]  # fmt: skip
    middles = [one.middle for one in spreads]
    tints = [colour(row.method) for row, _ in drawn]
    traces = [
        bars(names, middles, tints, hover=hover, spreads=spreads, lying=True),
        beside([one.high for one in spreads], names,
               [_text(row, one, kind, base) for row, one in drawn]),
    ]  # fmt: skip
    title, axis = CHARTS[kind]
    figure = chart(traces, title, axis, "", said, axis, showlegend=False)
    longest = max((one.high for one in spreads), default=1)
    return rows_down(figure, len(drawn)).update_xaxes(range=[0, ROOM * longest])


def _text(row: Row, spread: Spread, kind: str, base: Spread | None) -> str:
    value = f" {digits(spread.middle, kind)}"
    if base is None or row.method in (RIVAL, VANILLA):
        return value
    return f"{value}<br> {digits(spread.middle / base.middle, 'ratio')} × EAGLE-2"


def phases(rows: Sequence[Row]) -> go.Figure:
    """Milliseconds of a cycle, the mean of the middle run: draft, verify and other."""
    drawn = [row for row in rows if row.cycles > 0]
    names, tints = [row.label for row in drawn], [colour(row.method) for row in drawn]
    spent = {
        phase: [1000 * row.seconds.get(phase, 0.0) / row.cycles for row in drawn]
        for phase in PATTERNS
    }
    whole = [sum(times) for times in zip(*spent.values(), strict=True)]
    traces = [
        bars(names, values, tints, phase, PATTERNS[phase], f"%{{y}}: {phase} %{{x:.2f}} ms",
             lying=True)
        for phase, values in spent.items()
    ]  # fmt: skip
    said = [
        f"{name} {' '.join(f'{phase} {values[at]:.2f}' for phase, values in spent.items())}"
        for at, name in enumerate(names)
    ]
    figure = chart(
        [*traces, beside(whole, names, [f" {value:.1f} ms" for value in whole])],
        "Where a cycle’s time goes", "milliseconds per cycle", "", said, "milliseconds",
        barmode="stack", showlegend=True,
    )  # fmt: skip
    rows_down(figure, len(drawn)).update_layout(margin_t=76)
    return figure.update_xaxes(range=[0, 1.25 * max(whole, default=1)])
