"""Parts of all the page's charts: bars with whiskers, stacked bars, lines, and their style.

Every chart is a pure function of numbers. Colour is never the only cue: parts also have patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from demo.common.figures import Spread, time_of
from demo.common.methods import LOOKUP, RIVAL, VANILLA, colour, label
from demo.common.theme import mark
from moa_core.decoding.trace import Prefilled, Trace, Verified

# Readable on white and on near-black: no background, and mid-greys.
INK, GRID = "#8a8580", "rgba(138, 133, 128, 0.22)"
ACCEPTED, BONUS = mark("accepted"), mark("bonus")
PHASES = {"draft": mark("drafter"), "verify": mark("bonus"), "other": mark("plain")}
PATTERNS = {"draft": "", "verify": "/", "other": "."}
SIGNED = 48  # characters of a signature's line, for a phone
BELOW = 54  # px from the axis to it, which leaves room for labels
SPARSE = 24  # points in a line, about: a chart cannot show more
DASHES = {VANILLA: "dot", RIVAL: "dash", "moa-n1": "dashdot", "moa-n3": "longdash"}
MIXED = "longdashdot"  # with n-gram lookup, in the drafter's own colour
DOTTED = {"color": INK, "width": 1.5, "dash": "dot"}


def chart(
    traces: Iterable[Any], title: str, x: str = "", y: str = "", words: Iterable[str] = (),
    unit: str = "", **layout: Any,
) -> go.Figure:  # fmt: skip
    """A figure in the page's style. x, y: titles of the axes; words, unit: see `told`."""
    figure = go.Figure(list(traces), look(title, x, y)).update_layout(**layout)
    return told(figure, words, unit)


def look(title: str, x: str, y: str) -> go.Layout:
    axis = {"gridcolor": GRID, "zeroline": False, "rangemode": "tozero"}
    return go.Layout(
        template="none",
        dragmode=False,  # there is nothing to zoom in on, and a finger scrolls the page
        height=280,
        bargap=0.25,
        margin={"l": 48, "r": 64, "t": 76, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "IBM Plex Sans, sans-serif", "color": INK, "size": 13},
        hoverlabel={"bgcolor": "#2b2b2b", "font": {"color": "white"}},
        title={"text": title, "x": 0, "xref": "container", "y": 0.97, "font": {"size": 15}},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        xaxis={"title": {"text": x, "font": {"size": 13}}, **axis},
        yaxis={"title": {"text": y, "font": {"size": 13}}, **axis},
    )


def told(figure: go.Figure, words: Iterable[str], unit: str = "") -> go.Figure:
    """Give a figure its description for screen readers: title, unit and what it shows.

    They travel in its `meta`; static/charts.js makes them the accessible name on the page.
    """
    title = f"{figure.layout.title.text}, {unit}" if unit else figure.layout.title.text
    return figure.update_layout(meta={"words": f"{title}: {', '.join(words)}."})


def signed(figure: go.Figure, about: str) -> go.Figure:
    """Add a small line with model, tree and machine, so that a screenshot is self-contained."""
    lines = wrap(about, SIGNED)
    figure.add_annotation(
        text="<br>".join(lines), align="left", x=0, y=0, xref="paper", yref="paper",
        xanchor="left", yanchor="top", yshift=-BELOW, showarrow=False, font={"size": 10.5},
    )  # fmt: skip
    return figure.update_layout(margin_b=figure.layout.margin.b + 13 + 13 * len(lines))


def bars(
    names: Sequence[Any], values: Sequence[float], colour: Any, name: str = "", pattern: Any = "",
    hover: Sequence[str] | str = "", spreads: Sequence[Spread] = (), lying: bool = False,
) -> go.Bar:  # fmt: skip
    """A bar for each name. hover: a text each, or a template; lying: they grow to the right."""
    along, across = ("x", "y") if lying else ("y", "x")
    text = {"hovertemplate": f"{hover}<extra></extra>"}
    if not isinstance(hover, str):
        text = {"hovertext": list(hover), "hoverinfo": "text"}
    whiskers = {
        "type": "data", "symmetric": False, "color": INK, "thickness": 1.5, "width": 4,
        "array": [one.high - one.middle for one in spreads],
        "arrayminus": [one.middle - one.low for one in spreads],
        "visible": any(one.known for one in spreads),
    }  # fmt: skip
    ends = {f"error_{along}": whiskers} if spreads else {}
    marker = {
        "color": colour, "line": {"width": 0},
        "pattern": {"shape": pattern, "solidity": 0.35, "fillmode": "overlay", "fgopacity": 0.9},
    }  # fmt: skip
    return go.Bar(
        {along: list(values), across: list(names)}, name=name, marker=marker,
        orientation="h" if lying else "v", **text, **ends,
    )  # fmt: skip


def beside(ends: Sequence[float], names: Sequence[str], texts: Sequence[str]) -> go.Scatter:
    """Words to the right of lying bars."""
    return go.Scatter(
        x=ends, y=names, text=texts, mode="text", textposition="middle right", hoverinfo="skip",
        cliponaxis=False, showlegend=False,
    )  # fmt: skip


def line(
    x: Sequence[Any], y: Sequence[float], name: str, colour: str, hover: str, **more: Any
) -> go.Scatter:
    """A line. more: `mode`, and changes of `line` and `marker`."""
    stroke = {"color": colour, "width": 2.5, **more.pop("line", {})}
    marker = {"color": colour, **more.pop("marker", {})}
    return go.Scatter(
        x=list(x), y=list(y), name=name, line=stroke, marker=marker,
        hovertemplate=f"{hover}<extra></extra>", **{"mode": "lines", **more},
    )  # fmt: skip


def growth(trace: Trace) -> tuple[list[int], list[float]]:
    """New tokens after the prefill and after each cycle, and seconds until then: up to SPARSE."""
    points, spent, count = [], 0.0, 0
    for event in trace.events:
        spent += time_of(event)
        if isinstance(event, Prefilled | Verified):
            count += 1 if isinstance(event, Prefilled) else len(event.emitted)
            points.append((count, round(spent, 5)))
    step = max(1, len(points) // SPARSE)
    kept = [one for at, one in enumerate(points) if at % step == 0 or at == len(points) - 1]
    return [count for count, _ in kept], [seconds for _, seconds in kept]


def middle(traces: Sequence[Trace]) -> Trace:
    """The run whose speed is the median; the slower of two."""
    ordered = sorted(traces, key=lambda trace: trace.tokens_per_second or 0.0)
    return ordered[(len(ordered) - 1) // 2]


def latency(runs: Mapping[str, Trace]) -> go.Figure:
    drawn, words = [], []
    for method, trace in runs.items():
        tokens, seconds = growth(trace)
        name = label(method)
        hover = f"{name}: %{{x}} tokens after %{{y:.3f}} s"
        shape = {"dash": MIXED if method.endswith(LOOKUP) else DASHES.get(method, "solid")}
        drawn.append(line(tokens, seconds, name, colour(method), hover, line=shape))
        words.append(f"{name} {seconds[-1]:.2f} s")
    title = "Latency: seconds until each token"
    return chart(drawn, title, "tokens", "seconds", words, showlegend=True)
