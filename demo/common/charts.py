"""Figures, from traces: pure functions that run no model."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import plotly.graph_objects as go

from moa_core.decoding.trace import Drafted, Event, Prefilled, Trace, Verified

# Read on white and on near-black alike: no background of their own, greys half-way.
INK, GRID = "#8a8580", "rgba(138, 133, 128, 0.22)"
ACCEPTED, BONUS = "#0d9488", "#d97706"
# Colour is never the only sign.
PHASES = {"draft": "#0d9488", "verify": "#0072b2", "network": "#d97706", "other": "#8a8580"}
PATTERNS = {
    "draft": "",
    "verify": "/",
    "network": "x",
    "other": ".",
}  # colour is never the only sign


def accepted_lengths(trace: Trace) -> go.Figure:
    """Tokens gained by each cycle: accepted drafts with the bonus token on top, and their mean."""
    gained = trace.accepted_lengths
    cycles = list(range(1, len(gained) + 1))
    figure = go.Figure(
        [
            _bars("Accepted drafts", cycles, [count - 1 for count in gained], ACCEPTED),
            _bars("Bonus token", cycles, [1] * len(gained), BONUS),
        ],
        plain_layout("Tokens gained in each cycle", "cycle", "tokens"),
    )
    figure.update_traces(marker_line_width=0)
    figure.update_layout(barmode="stack", bargap=0.25)
    if trace.tau is not None:
        figure.add_hline(trace.tau, line={"color": INK, "width": 1.5, "dash": "dot"})
        figure.add_annotation(
            text=f"τ = {trace.tau:.2f}", x=1.005, y=trace.tau, xref="paper", xanchor="left",
            showarrow=False,
        )  # fmt: skip
    figure.update_yaxes(dtick=1 if max(gained, default=1) < 10 else None, rangemode="tozero")
    figure.update_xaxes(range=[0.4, max(len(gained), 8) + 0.6], showgrid=False)
    if not gained:
        return told(figure, ["no cycle"])
    ends, mean = f"from {min(gained)} to {max(gained)}", sum(gained) / len(gained)
    return told(figure, [_counted(gained), ends, f"mean {mean:.2f}"])


def cumulative_latency(trace: Trace) -> go.Figure:
    """When each new token was there: seconds since the run began, prefill and clock of the loop."""
    seconds, tokens, spent, count = [], [], 0.0, 0
    for event in trace.events:
        spent += time_of(event)
        match event:
            case Prefilled():
                count = 1
            case Verified():
                count += len(event.emitted)
            case _:
                continue
        seconds.append(spent)
        tokens.append(count)
    line = go.Scatter(
        x=tokens, y=seconds, mode="lines+markers", line={"color": ACCEPTED, "shape": "hv"},
        marker={"size": 5}, showlegend=False,
        hovertemplate="%{x} tokens after %{y:.3f} s<extra></extra>",
    )  # fmt: skip
    figure = go.Figure(line, plain_layout("Cumulative latency", "new tokens", "seconds"))
    figure.update_yaxes(rangemode="tozero")
    if not tokens:
        return told(figure, ["no token"])
    first = f"the first token after {seconds[0]:.3f} s"
    return told(figure, [first, f"all {tokens[-1]} after {seconds[-1]:.3f} s"])


def phases(trace: Trace) -> go.Figure:
    """Milliseconds that each cycle spent on drafting, verifying and the rest."""
    spent = {
        "draft": [drafted.seconds for drafted, _ in trace.cycles],
        "verify": [verified.seconds for _, verified in trace.cycles],
        "network": [verified.network_seconds for _, verified in trace.cycles],
        "other": [verified.other_seconds for _, verified in trace.cycles],
    }
    if not any(spent["network"]):  # the target is in this process
        del spent["network"]
    cycles = list(range(1, len(trace.cycles) + 1))
    bars = [
        go.Bar(
            name=phase, x=cycles, y=[1000 * value for value in values],
            marker={"color": PHASES[phase], "pattern_shape": PATTERNS[phase], "line_width": 0},
            hovertemplate=f"cycle %{{x}}: {phase} %{{y:.2f}} ms<extra></extra>",
        )
        for phase, values in spent.items()
    ]  # fmt: skip
    figure = go.Figure(bars, plain_layout("Where each cycle’s time goes", "cycle", "milliseconds"))
    figure.update_layout(barmode="stack", bargap=0.25)
    figure.update_xaxes(range=[0.4, max(len(cycles), 8) + 0.6], showgrid=False)
    if not cycles:
        return told(figure, ["no cycle"])
    means = {phase: 1000 * sum(values) / len(cycles) for phase, values in spent.items()}
    parts = [f"{phase} {mean:.2f} ms" for phase, mean in means.items()]
    return told(figure, [f"{_counted(cycles)}, on average {parts[0]}", *parts[1:]])


def time_of(event: Event) -> float:
    """Seconds in the decode loop that an event stands for."""
    match event:
        case Prefilled() | Drafted():
            return event.seconds
        case Verified():
            return event.seconds + event.network_seconds + event.other_seconds
    return 0.0


def _counted(cycles: list[int]) -> str:
    return "1 cycle" if len(cycles) == 1 else f"{len(cycles)} cycles"


def _bars(name: str, x: list[int], y: list[int], color: str) -> go.Bar:
    hover = f"cycle %{{x}}: %{{y}} {name.lower()}<extra></extra>"
    return go.Bar(name=name, x=x, y=y, marker={"color": color}, hovertemplate=hover)


def told(figure: go.Figure, words: Iterable[str], unit: str = "") -> go.Figure:
    """Give a figure its words: title, unit and what it shows, for those who cannot see it.

    They travel in its `meta`; common/static/charts.js makes them the accessible name on the page.
    """
    title = f"{figure.layout.title.text}, {unit}" if unit else figure.layout.title.text
    return figure.update_layout(meta={"words": f"{title}: {', '.join(words)}."})


def plain_layout(title: str, x: str, y: str) -> go.Layout:
    """The look that every chart of the page shares."""
    return go.Layout(
        template="none",
        dragmode=False,  # there is nothing to zoom in on, and a finger scrolls the page
        height=280,
        margin={"l": 48, "r": 64, "t": 76, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "IBM Plex Sans, sans-serif", "color": INK, "size": 13},
        title={"text": title, "x": 0, "xref": "container", "y": 0.97, "font": {"size": 15}},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        xaxis={"title": {"text": x, "font": {"size": 13}}, "gridcolor": GRID, "zeroline": False},
        yaxis={"title": {"text": y, "font": {"size": 13}}, "gridcolor": GRID, "zeroline": False},
    )


def label(name: str, width: int = 26) -> str:
    """A name from outside as plotly may show it: short, and no markup."""
    plain = " ".join(name.split())
    return escape(plain if len(plain) <= width else plain[: width - 1] + "…", quote=False)
