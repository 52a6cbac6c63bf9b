"""The stage's two charts: tokens gained per target call, and the time of each token."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from demo.common.charts import Lane, bars, beside, chart, latency, rows_down, signed
from demo.common.methods import colour
from demo.common.spread import Spread
from moa_core.decoding.trace import Trace

HEIGHT = 190


def speed(traces: Sequence[Trace]) -> Spread | None:
    """Tokens per second, prefill included, over the runs of a method."""
    rates = [rate for trace in traces if (rate := trace.tokens_per_second)]
    return Spread.of(rates) if rates else None


def acceptance(lanes: Sequence[Lane], about: str) -> go.Figure:
    """A bar per method: tokens gained per target call."""
    known = [(lane, lane.tau) for lane in lanes if lane.tau is not None]
    names = [lane.label for lane, _ in known]
    values = [tau for _, tau in known]
    texts = [f"{tau:.2f}" for tau in values]
    hover = [f"{name}: τ {text}" for name, text in zip(names, texts, strict=True)]
    drawn = bars(
        names, values, [colour(lane.method) for lane, _ in known], hover=hover, lying=True,
        showlegend=False,
    )  # fmt: skip
    words = [f"{name} {text}" for name, text in zip(names, texts, strict=True)] or ["no cycle"]
    title = "Acceptance length τ: tokens per target call"
    figure = chart(
        [drawn, beside(values, names, [f" {text}" for text in texts])], title, "", "", words
    )
    figure = rows_down(figure, len(names))
    figure.update_xaxes(range=[0, 1.15 * max(values, default=1)])
    return _small(figure, about)


def over_tokens(lanes: Sequence[Lane], about: str) -> go.Figure:
    """A line per method: seconds until each token."""
    figure = latency(lanes).update_layout(legend={"y": 1.0, "font": {"size": 12}})
    return _small(figure, about)


def _small(figure: go.Figure, about: str) -> go.Figure:
    figure.update_layout(title={"font": {"size": 13.5}, "y": 0.98, "yanchor": "top"})
    figure.update_layout(height=HEIGHT, margin={"l": 40, "r": 16, "t": 46, "b": 28})
    return signed(figure, about, 22)


CHARTS = {"acceptance": acceptance, "latency": over_tokens}
