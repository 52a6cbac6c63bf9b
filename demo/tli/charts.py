"""Charts of a sweep over N, and the paper's beside them."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from demo.common.charts import DOTTED, INK, bars, chart, cycles_axis
from demo.common.methods import VANILLA, colour
from demo.tli.rows import Row
from moa_core.bench.paper import Paper

SHAPES = ("circle", "square", "diamond", "triangle-up")  # of N in the strip: never colour alone
PANELS = {  # key of a row: title, axis, digits
    "tau": ("Acceptance length τ", "tokens per target forward", 2),
    "draft": ("Draft time", "ms per cycle", 1),
    "rate": ("Speed", "tokens per second, prefill included", 0),
}
PAPER = {  # key of a cell: its place, title, axis
    "speed_up": (0, "The paper: speed", "× plain decoding"),
    "tau": (1, "The paper: τ", "tokens per target forward"),
}


def panel(rows: Sequence[Row], key: str) -> go.Figure:
    """One figure of each N and of auto N, with its spread over the repeats, from zero."""
    title, axis, places = PANELS[key]
    drawn = [row for row in rows if row.method != VANILLA]
    spreads = [getattr(row, key) for row in drawn]
    values = [f"{one.middle:.{places}f}" for one in spreads]
    hover = [f"{row.name}: {value}<br>from {one.low:.{places}f} to {one.high:.{places}f}"
             for row, one, value in zip(drawn, spreads, values, strict=True)]  # fmt: skip
    several = any(row.runs > 1 for row in drawn)
    made = bars(
        range(len(drawn)), [round(one.middle, 4) for one in spreads],
        [colour(row.method) for row in drawn], hover=hover, spreads=spreads if several else (),
    )  # fmt: skip
    plain = next((row.rate.middle for row in rows if row.method == VANILLA), None)
    dotted = key == "rate" and plain
    shown = f"{title} (dotted: plain decoding, {plain:.0f})" if dotted else title
    words = [f"{row.name} {value}" for row, value in zip(drawn, values, strict=True)]
    figure = _upright(made, shown, axis, words, values, [row.short for row in drawn])
    return figure.add_hline(plain, line=DOTTED) if dotted else figure


def paper_panel(paper: Paper, key: str) -> go.Figure:
    """The paper's own figures, hatched: tau or speed-up by N, means as printed."""
    place, title, axis = PAPER[key]
    values = [row.printed[place] for row in paper.by_tli.values()]
    made = bars(
        range(len(values)), values, "rgba(138, 133, 128, 0.25)", pattern="/",
        hover="%{y:.2f}, as published",
    )  # fmt: skip
    made.marker.update(
        line={"color": INK, "width": 1},
        pattern={"fgcolor": INK, "size": 7, "solidity": 0.25, "fillmode": "replace"},
    )
    texts, names = [f"{value:.2f}" for value in values], [f"N = {tli}" for tli in paper.by_tli]
    words = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
    return _upright(made, title, axis, words, texts, names)


def _upright(
    made: go.Bar, title: str, axis: str, words: list[str], values: list[str], names: list[str]
) -> go.Figure:
    """Upright bars, with the value and the name under each."""
    ticks = [f"<b>{value}</b><br>{name}" for value, name in zip(values, names, strict=True)]
    figure = chart(
        [made.update(width=0.62)], title, "", axis, words, axis, height=250,
        margin={"l": 52, "r": 8, "t": 44, "b": 46},
    )  # fmt: skip
    figure.update_yaxes(title_standoff=6, fixedrange=True)
    return figure.update_xaxes(
        tickvals=list(range(len(ticks))), ticktext=ticks, showgrid=False, fixedrange=True,
        range=[-0.6, len(ticks) - 0.4],
    )  # fmt: skip


def strip(choices: Sequence[int], stops: Sequence[int]) -> go.Figure:
    """Which N auto N drafted with, a mark for each cycle."""
    marks = go.Scatter(
        x=list(range(1, len(choices) + 1)), y=[stops.index(tli) for tli in choices], mode="markers",
        marker={
            "symbol": [SHAPES[tli % len(SHAPES)] for tli in choices],
            "color": [colour(f"moa-n{tli}") for tli in choices],
            "size": 10, "line": {"color": INK, "width": 1},
        },
        text=[f"N = {tli}" for tli in choices],
        hovertemplate="cycle %{x}: %{text}<extra></extra>",
    )  # fmt: skip
    counts = [f"N = {stop} in {choices.count(stop)}" for stop in stops]
    counts[0] = f"of {len(choices)} cycles {counts[0]}"
    figure = chart(
        [marks], "What auto N chose, cycle by cycle", "cycle", "", counts, showlegend=False,
        height=128 + 26 * len(stops), margin={"l": 52, "r": 8, "t": 44, "b": 44},
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=list(range(len(stops))), ticktext=[f"N = {stop}" for stop in stops],
        range=[-0.6, len(stops) - 0.4], fixedrange=True,
    )  # fmt: skip
    return cycles_axis(figure, len(choices))
