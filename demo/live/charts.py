"""The stage's two charts: tokens gained per target call, and seconds until each token."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from demo.common.by_method import figures
from demo.common.charts import Lane, latency, signed
from demo.common.figures import Spread
from moa_core.decoding.trace import Trace


def speed(traces: Sequence[Trace]) -> Spread | None:
    """Tokens per second, prefill included, over the runs of a method."""
    rates = [rate for trace in traces if (rate := trace.tokens_per_second)]
    return Spread.of(rates) if rates else None


def acceptance(lanes: Sequence[Lane], about: str) -> go.Figure:
    known = {lane.method: Spread.of([lane.tau]) for lane in lanes if lane.tau is not None}
    title = "Acceptance length τ: tokens per target call (× EAGLE-2)"
    figure = figures(known, title, "", 2).update_xaxes(title_text="")
    return _small(figure, about)


def over_tokens(lanes: Sequence[Lane], about: str) -> go.Figure:
    figure = latency(lanes).update_layout(legend={"y": 1.0, "font": {"size": 12}})
    return _small(figure, about)


def _small(figure: go.Figure, about: str) -> go.Figure:
    title = {"font": {"size": 13.5}, "y": 0.98, "yanchor": "top"}
    figure.update_layout(title=title, height=190, margin={"l": 40, "r": 16, "t": 46, "b": 28})
    return signed(figure, about, 22)


CHARTS = {"acceptance": acceptance, "latency": over_tokens}
