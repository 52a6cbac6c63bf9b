"""The charts of a run on the Live tab."""

from __future__ import annotations

import plotly.graph_objects as go

from demo.common.charts import (
    ACCEPTED,
    BONUS,
    DOTTED,
    bars,
    chart,
    counted,
    cycles_axis,
    line,
    phases,
    progress_of,
)
from moa_core.decoding.trace import Trace


def accepted_lengths(trace: Trace) -> go.Figure:
    """Tokens gained by each cycle: accepted drafts with the bonus token on top, and their mean."""
    gained = trace.accepted_lengths
    cycles = list(range(1, len(gained) + 1))
    drafts = [count - 1 for count in gained]
    stack = [
        bars(cycles, drafts, ACCEPTED, "Accepted drafts", "", "cycle %{x}: %{y} accepted drafts"),
        bars(cycles, [1] * len(gained), BONUS, "Bonus token", "", "cycle %{x}: %{y} bonus token"),
    ]
    words = ["no cycle"]
    if gained:
        mean = sum(gained) / len(gained)
        ends = f"from {min(gained)} to {max(gained)}"
        words = [counted(len(gained)), ends, f"mean {mean:.2f}"]
    figure = chart(stack, "Tokens gained in each cycle", "cycle", "tokens", words, barmode="stack")
    if trace.tau is not None:
        figure.add_hline(trace.tau, line=DOTTED)
        figure.add_annotation(
            text=f"τ = {trace.tau:.2f}", x=1.005, y=trace.tau, xref="paper", xanchor="left",
            showarrow=False,
        )  # fmt: skip
    figure.update_yaxes(dtick=1 if max(gained, default=1) < 10 else None)
    return cycles_axis(figure, len(gained))


def cumulative_latency(trace: Trace) -> go.Figure:
    """When each new token was there: seconds since the run began, prefill and clock of the loop."""
    tokens, seconds = progress_of(trace)
    words = ["no token"]
    if tokens:
        first = f"the first token after {seconds[0]:.3f} s"
        words = [first, f"all {tokens[-1]} after {seconds[-1]:.3f} s"]
    steps = line(
        tokens, seconds, "", ACCEPTED, "%{x} tokens after %{y:.3f} s", mode="lines+markers",
        line={"shape": "hv", "width": 2}, marker={"size": 5}, showlegend=False,
    )  # fmt: skip
    return chart([steps], "Cumulative latency", "new tokens", "seconds", words)


def times(trace: Trace) -> go.Figure:
    """Milliseconds that each cycle spent on drafting, verifying and the rest."""
    return phases(trace, {})


CHARTS = {"lengths": accepted_lengths, "latency": cumulative_latency, "phases": times}
