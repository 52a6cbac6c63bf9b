"""Figures of a comparison: pure functions from its rows and traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from demo.common.charts import INK, plain_layout, told
from demo.common.methods import RIVAL, colour, label
from demo.common.spread import Spread
from demo.compare.rows import Row, against, middle, words
from demo.compare.run import Comparison
from moa_core.decoding.trace import Drafted, Prefilled, Trace, Verified

DASHES = ("solid", "dash", "dot", "dashdot")
PATTERNS = {"draft": "", "verify": "/", "other": "."}  # of a phase; the colour is the method's
CHARTS = {  # title, axis
    "tau": ("Acceptance length τ", "tokens per target forward"),
    "rate": ("Tokens per second: more is better", "tokens/s of the whole run, prefill included"),
    "latency": ("Latency: less is better", "ms per token after the prefill"),
}
ROOM = 1.9  # times the longest bar: so much of the width is kept for what is written after it


def bars(rows: Sequence[Row], kind: str) -> go.Figure:
    """A bar per method for tau, rate or latency; whiskers from the lowest to the highest repeat.

    Beside each bar its figure, and how many times EAGLE-2's that is.
    """
    drawn = [(row, spread) for row in rows if (spread := getattr(row, kind)) is not None]
    rival = against(rows, RIVAL)
    base = getattr(rival, kind) if rival else None
    names = [row.label for row, _ in drawn]
    traces = [
        go.Bar(
            x=[spread.middle for _, spread in drawn], y=names, orientation="h",
            error_x=_whiskers([spread for _, spread in drawn]),
            marker={"color": [colour(row.method) for row, _ in drawn], "line": {"width": 0}},
            hovertext=[_hover(row, spread, kind) for row, spread in drawn], hoverinfo="text",
        ),
        _texts(
            [spread.high for _, spread in drawn], names,
            [_beside(row, spread, kind, base) for row, spread in drawn],
        ),
    ]  # fmt: skip
    figure = _lying(traces, *CHARTS[kind], len(drawn))
    longest = max((spread.high for _, spread in drawn), default=1)
    figure.update_xaxes(range=[0, ROOM * longest])
    return told(figure, [_spoken(row, spread, kind) for row, spread in drawn], CHARTS[kind][1])


def _texts(x: Sequence[float], names: Sequence[str], texts: Sequence[str]) -> go.Scatter:
    """Words to the right of these ends of bars."""
    return go.Scatter(
        x=x, y=names, text=texts, mode="text", textposition="middle right", hoverinfo="skip",
        cliponaxis=False, showlegend=False,
    )  # fmt: skip


def _whiskers(spreads: Sequence[Spread]) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "color": INK, "thickness": 1.5, "width": 5,
        "array": [spread.high - spread.middle for spread in spreads],
        "arrayminus": [spread.middle - spread.low for spread in spreads],
        "visible": any(spread.known for spread in spreads),
    }  # fmt: skip


def _beside(row: Row, spread: Spread, kind: str, base: Spread | None) -> str:
    value = f" {words(spread.middle, kind)}"
    if base is None or row.method == RIVAL:
        return value
    return f"{value}<br> {words(spread.middle / base.middle, 'ratio')} × EAGLE-2"


def _hover(row: Row, spread: Spread, kind: str) -> str:
    low, value, high = (words(each, kind) for each in (spread.low, spread.middle, spread.high))
    return f"{row.label}: {value}<br>{row.runs} repeats: {low} to {high}"


def _spoken(row: Row, spread: Spread, kind: str) -> str:
    low, value, high = (words(each, kind) for each in (spread.low, spread.middle, spread.high))
    return f"{row.label} {value} ({low} to {high})" if spread.known else f"{row.label} {value}"


def clock(trace: Trace) -> tuple[list[int], list[float]]:
    """(tokens, seconds): after the prefill and after each cycle, so many tokens were there."""
    tokens: list[int] = []
    seconds: list[float] = []
    now = 0.0
    for event in trace.events:
        match event:
            case Prefilled():
                now += event.seconds
                tokens.append(1)
                seconds.append(now)
            case Drafted():
                now += event.seconds
            case Verified():
                now += event.seconds + event.other_seconds
                tokens.append(tokens[-1] + len(event.emitted))
                seconds.append(now)
    return tokens, seconds


def cumulative(comparison: Comparison) -> go.Figure:
    """Seconds since the start, prefill included, over the tokens written: each middle run."""
    runs = [(name, middle(traces)) for name, traces in comparison.traces.items() if traces]
    lines = [(name, *clock(trace)) for name, trace in runs]
    traces = [
        go.Scatter(
            x=tokens, y=seconds, name=label(name), mode="lines",
            line={"color": colour(name), "width": 2.5, "dash": DASHES[place % len(DASHES)]},
            hovertemplate=f"{label(name)}: %{{x}} tokens after %{{y:.3f}} s<extra></extra>",
        )
        for place, (name, tokens, seconds) in enumerate(lines)
    ]  # fmt: skip
    figure = go.Figure(traces, plain_layout("Time until each token", "tokens", "seconds"))
    figure.update_layout(height=320, showlegend=True, margin_r=24)
    figure.update_yaxes(rangemode="tozero").update_xaxes(rangemode="tozero")
    ends = [(label(name), tokens[-1], seconds[-1]) for name, tokens, seconds in lines if tokens]
    return told(figure, [f"{name} {count} after {time:.2f} s" for name, count, time in ends])


def phases(rows: Sequence[Row]) -> go.Figure:
    """Milliseconds of a cycle, the mean of the middle run: draft, verify and other."""
    drawn = [row for row in rows if row.cycles > 0]
    names = [row.label for row in drawn]
    traces = []
    for phase, pattern in PATTERNS.items():
        spent = [1000 * row.seconds.get(phase, 0.0) / row.cycles for row in drawn]
        traces.append(
            go.Bar(
                x=spent, y=names, name=phase, orientation="h",
                marker={
                    "color": [colour(row.method) for row in drawn],
                    "pattern": {
                        "shape": pattern, "solidity": 0.35, "fillmode": "overlay", "fgopacity": 0.9
                    },
                    "line": {"width": 0},
                },
                hovertemplate=f"%{{y}}: {phase} %{{x:.2f}} ms<extra></extra>",
            )
        )  # fmt: skip
    whole = [sum(times) for times in zip(*(trace.x for trace in traces), strict=True)]
    traces.append(_texts(whole, names, [f" {value:.1f} ms" for value in whole]))
    figure = _lying(traces, "Where a cycle’s time goes", "milliseconds per cycle", len(drawn))
    figure.update_xaxes(range=[0, 1.25 * max(whole, default=1)])
    figure.update_layout(barmode="stack", showlegend=True, margin_t=76)
    return told(figure, [f"{row.label} {_by_phase(row)}" for row in drawn], "milliseconds")


def _by_phase(row: Row) -> str:
    spent = {phase: 1000 * row.seconds.get(phase, 0.0) / row.cycles for phase in PATTERNS}
    return " ".join(f"{phase} {value:.2f}" for phase, value in spent.items())


def _lying(traces: list[Any], title: str, axis: str, count: int) -> go.Figure:
    """Bars to the right, a row per method, the first on top."""
    figure = go.Figure(traces, plain_layout(title, axis, ""))
    figure.update_layout(
        height=116 + 50 * count, showlegend=False, bargap=0.42,
        margin={"l": 8, "r": 12, "t": 48, "b": 44},
    )  # fmt: skip
    figure.update_xaxes(rangemode="tozero")
    return figure.update_yaxes(
        autorange="reversed", showgrid=False, automargin=True, ticksuffix=" "
    )
