"""Figures of a sweep, from its rows, and the paper's beside them: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from demo.common.charts import INK, plain_layout, told
from demo.common.methods import VANILLA, colour
from demo.common.spread import Spread
from demo.tli.rows import Row
from moa_core.bench.paper import Paper

SHAPES = ("circle", "square", "diamond", "triangle-up")  # of N in the strip: never colour alone
PANELS = {  # key of a row: title, axis, digits
    "tau": ("Acceptance length τ", "tokens per target forward", 2),
    "draft": ("Draft time", "ms per cycle", 1),
    "rate": ("Speed", "tokens per second, prefill included", 0),
}


def panel(rows: Sequence[Row], key: str) -> go.Figure:
    """One figure of each N and of auto N, with its spread over the repeats, from zero."""
    title, axis, digits = PANELS[key]
    shown = [row for row in rows if row.method != VANILLA]
    spreads: list[Spread] = [getattr(row, key) for row in shown]
    both = list(zip(shown, spreads, strict=True))
    bars = go.Bar(
        x=list(range(len(shown))),
        y=[round(spread.middle, 4) for spread in spreads],
        error_y=_whiskers(spreads) if any(row.runs > 1 for row in shown) else None,
        marker={"color": [colour(row.method) for row in shown]},
        customdata=[[row.name, spread.low, spread.high] for row, spread in both],
        hovertemplate=f"%{{customdata[0]}}: %{{y:.{digits}f}}<br>"
        f"from %{{customdata[1]:.{digits}f}} to %{{customdata[2]:.{digits}f}}<extra></extra>",
    )  # fmt: skip
    ticks = [f"<b>{spread.middle:.{digits}f}</b><br>{row.short}" for row, spread in both]
    figure = _bars_figure(bars, title, axis, ticks)
    plain = next((row for row in rows if row.method == VANILLA), None)
    if key == "rate" and plain:
        rate = plain.rate.middle
        figure.add_hline(rate, line={"color": INK, "width": 1.5, "dash": "dot"})
        figure.update_layout(title_text=f"{title} (dotted: plain decoding, {rate:.0f})")
    return told(figure, [f"{row.name} {spread.middle:.{digits}f}" for row, spread in both], axis)


def _whiskers(spreads: Sequence[Spread]) -> dict:
    return {
        "array": [spread.high - spread.middle for spread in spreads],
        "arrayminus": [spread.middle - spread.low for spread in spreads],
        "color": INK,
        "thickness": 1.5,
        "width": 4,
    }


def paper_panel(paper: Paper, key: str) -> go.Figure:
    """The paper's own figures, hatched: tau or speed-up by N, means as printed."""
    place, title, axis = {
        "speed_up": (0, "The paper: speed", "× plain decoding"),
        "tau": (1, "The paper: τ", "tokens per target forward"),
    }[key]
    values = [row.printed[place] for row in paper.by_tli.values()]
    bars = go.Bar(
        x=list(range(len(values))),
        y=values,
        marker={
            "color": "rgba(138, 133, 128, 0.25)",
            "line": {"color": INK, "width": 1},
            "pattern": {"shape": "/", "fgcolor": INK, "size": 7, "solidity": 0.25},
        },
        hovertemplate="%{y:.2f}, as published<extra></extra>",
    )
    ticks = [
        f"<b>{value:.2f}</b><br>N = {tli}" for tli, value in zip(paper.by_tli, values, strict=True)
    ]
    figure = _bars_figure(bars, title, axis, ticks)
    named = zip(paper.by_tli, values, strict=True)
    return told(figure, [f"N = {tli} {value:.2f}" for tli, value in named], axis)


def _bars_figure(bars: go.Bar, title: str, axis: str, ticks: Sequence[str]) -> go.Figure:
    figure = go.Figure([bars], plain_layout(title, "", axis))
    figure.update_traces(width=0.62)
    figure.update_layout(height=250, margin={"l": 52, "r": 8, "t": 44, "b": 46})
    figure.update_yaxes(rangemode="tozero", title_standoff=6, fixedrange=True)
    figure.update_xaxes(
        tickvals=list(range(len(ticks))), ticktext=list(ticks), showgrid=False, fixedrange=True,
        range=[-0.6, len(ticks) - 0.4],
    )  # fmt: skip
    return figure


def strip(choices: Sequence[int], stops: Sequence[int]) -> go.Figure:
    """Which N auto N drafted with, a mark for each cycle."""
    cycles = list(range(1, len(choices) + 1))
    layout = plain_layout("What auto N chose, cycle by cycle", "cycle", "")
    marks = go.Scatter(
        x=cycles,
        y=[stops.index(tli) for tli in choices],
        mode="markers",
        marker={
            "symbol": [SHAPES[tli % len(SHAPES)] for tli in choices],
            "color": [colour(f"moa-n{tli}") for tli in choices],
            "size": 10,
            "line": {"color": INK, "width": 1},
        },
        text=[f"N = {tli}" for tli in choices],
        hovertemplate="cycle %{x}: %{text}<extra></extra>",
    )
    figure = go.Figure([marks], layout)
    figure.update_layout(height=128 + 26 * len(stops), margin={"l": 52, "r": 8, "t": 44, "b": 44})
    figure.update_layout(showlegend=False)
    figure.update_yaxes(
        tickvals=list(range(len(stops))), ticktext=[f"N = {stop}" for stop in stops],
        range=[-0.6, len(stops) - 0.4], fixedrange=True,
    )  # fmt: skip
    figure.update_xaxes(
        range=[0, max(len(choices), 8) + 1],
        showgrid=False,
        fixedrange=True,
        rangemode="nonnegative",
    )
    counts = [f"N = {stop} in {choices.count(stop)}" for stop in stops]
    return told(figure, [f"of {len(choices)} cycles {counts[0]}", *counts[1:]])
