"""The stage's two charts: tokens gained per target call, and the time of each token."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from demo.common.charts import Lane, bars, beside, chart, latency, rows_down, signed
from demo.common.methods import colour
from demo.common.spread import Spread
from moa_core.decoding.trace import Trace


def speed(traces: Sequence[Trace]) -> Spread | None:
    """Tokens per second, prefill included, over the runs of a method."""
    rates = [rate for trace in traces if (rate := trace.tokens_per_second)]
    return Spread.of(rates) if rates else None


def acceptance(lanes: Sequence[Lane], about: str) -> go.Figure:
    """A bar per method: tokens gained per target call."""
    known = [lane for lane in lanes if lane.tau is not None]
    names, values = [lane.label for lane in known], [lane.tau for lane in known]
    drawn = [
        bars(
            names, values, [colour(lane.method) for lane in known], lying=True, showlegend=False,
            hover=[f"{lane.label}: τ {lane.tau:.2f}" for lane in known],
        ),
        beside(values, names, [f" {tau:.2f}" for tau in values]),
    ]  # fmt: skip
    words = [f"{lane.label} {lane.tau:.2f}" for lane in known] or ["no cycle"]
    title = "Acceptance length τ: tokens per target call"
    figure = rows_down(chart(drawn, title, words=words), len(names))
    figure.update_xaxes(range=[0, 1.15 * max(values, default=1)])
    return _small(figure, about)


def over_tokens(lanes: Sequence[Lane], about: str) -> go.Figure:
    """A line per method: seconds until each token."""
    figure = latency(lanes).update_layout(legend={"y": 1.0, "font": {"size": 12}})
    return _small(figure, about)


def _small(figure: go.Figure, about: str) -> go.Figure:
    title = {"font": {"size": 13.5}, "y": 0.98, "yanchor": "top"}
    figure.update_layout(title=title, height=190, margin={"l": 40, "r": 16, "t": 46, "b": 28})
    return signed(figure, about, 22)


CHARTS = {"acceptance": acceptance, "latency": over_tokens}
