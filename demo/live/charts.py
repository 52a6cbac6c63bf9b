"""The stage's two charts: how many tokens a target call brings, and when each token is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import plotly.graph_objects as go

from demo.common.charts import bars, beside, chart, line, progress_of, rows_down, signed
from demo.common.methods import colour
from demo.common.methods import label as called
from demo.common.spread import Spread
from moa_core.decoding.trace import Trace
from moa_core.loading.names import VANILLA

HEIGHT = 190
DASHES = {VANILLA: "dot", "eagle2": "dash"}
SPARSE = 24  # points of a line at most: a chart shows no more


@dataclass(frozen=True)
class Lane:
    """What the charts need of one method.

    tau      None: it had no cycle
    tokens   new tokens, after the prefill and after each cycle of its middle run
    seconds  until then
    """

    method: str
    tau: float | None
    tokens: list[int]
    seconds: list[float]

    @classmethod
    def of(cls, method: str, traces: Sequence[Trace]) -> Lane:
        """Of a method's runs, the middle one by its speed."""
        ranked = sorted(traces, key=lambda trace: sum(trace.seconds.values()))
        trace = ranked[len(ranked) // 2]
        tokens, seconds = progress_of(trace)
        step = max(1, len(tokens) // SPARSE)
        kept = [at for at in range(len(tokens)) if at % step == 0 or at == len(tokens) - 1]
        rounded = [round(seconds[at], 5) for at in kept]
        return cls(method, trace.tau, [tokens[at] for at in kept], rounded)

    @property
    def label(self) -> str:
        return called(self.method)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def speed(traces: Sequence[Trace]) -> Spread | None:
    """Tokens per second, prefill included, over the runs of a method."""
    rates = [rate for trace in traces if (rate := trace.tokens_per_second)]
    return Spread.of(rates) if rates else None


def acceptance(lanes: Sequence[Lane], about: str) -> go.Figure:
    """A bar for each method: tokens that one target call brings."""
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


def latency(lanes: Sequence[Lane], about: str) -> go.Figure:
    """A line for each method: seconds until each token was there."""
    drawn = [
        line(
            lane.tokens, lane.seconds, lane.label, colour(lane.method),
            f"{lane.label}: %{{x}} tokens after %{{y:.3f}} s",
            line={"dash": DASHES.get(lane.method, "solid")},
        )
        for lane in lanes
    ]  # fmt: skip
    words = [f"{lane.label} {lane.seconds[-1]:.2f} s" for lane in lanes if lane.seconds]
    figure = chart(drawn, "Latency: seconds until each token", "", "", words or ["no token"])
    figure.update_layout(legend={"y": 1.0, "font": {"size": 12}}, showlegend=True)
    return _small(figure, about)


def _small(figure: go.Figure, about: str) -> go.Figure:
    figure.update_layout(title={"font": {"size": 13.5}, "y": 0.98, "yanchor": "top"})
    figure.update_layout(height=HEIGHT, margin={"l": 40, "r": 16, "t": 46, "b": 28})
    return signed(figure, about, 22)


CHARTS = {"acceptance": acceptance, "latency": latency}
