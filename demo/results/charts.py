"""Figures of recorded benchmarks: a row per method, a frame per recording. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from demo.common import methods as names
from demo.common.charts import GRID, INK, label, plain_layout, told
from moa_core.bench.recorded import Recording
from moa_core.bench.values import PHASES, above_zero, number, numbers, phase_times

ROW, FRAME, HEAD = 27, 34, 66  # pixels: a method, between two frames, above the first
FOOT = 46  # pixels below the last frame
SYMBOLS = {  # plotly's name, and the letter that stands for it in the legend
    "circle-open": "○", "square-open": "□", "diamond-open": "◇", "triangle-up-open": "△",
    "cross-open": "✚", "x-open": "✖", "triangle-down-open": "▽", "star-open": "☆",
}  # fmt: skip
PHASE_COLOURS = dict(zip(PHASES, ("#d97706", "#0d9488", "#8a8580"), strict=True))
Figures = dict[str, Any]
Frames = list[tuple[Recording, dict[str, Any]]]  # by method


@dataclass(frozen=True)
class Chart:
    """A figure, None if nobody has the numbers, and the methods that are not in it."""

    title: str
    figure: go.Figure | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """What to show: these recordings, those of these methods that each has, one kind or all."""

    recordings: tuple[Recording, ...]
    methods: tuple[str, ...]
    kind: str | None = None

    def of(self, recording: Recording) -> list[str]:
        """The methods to show of a recording, in its own order."""
        return [name for name in recording.methods if name in self.methods]

    def symbol(self, kind: str) -> str:
        """The mark of a kind of prompt, the same in every recording."""
        kinds = dict.fromkeys(kind for one in self.recordings for kind in one.kinds)
        return list(SYMBOLS)[list(kinds).index(kind) % len(SYMBOLS)]


def shown(name: str) -> str:
    """A method's name as people read it; one that is not ours stays as it is."""
    known = names.label(name) != name
    return names.label(name) if known else label(name, 22)


def bars(view: View, key: str, title: str, unit: str) -> Chart:
    """A figure of each method, with its spread, and where all kinds are meant a mark for each."""
    frames = _frames(view, lambda one, name: above_zero(one.figures(name, view.kind).get(key)))
    digits = 2 if key == "tau" else 0

    def said(value: float) -> str:
        return f"{value:.{digits}f}"

    figure = _figure(frames, title, unit, said)
    for at, (recording, found) in enumerate(frames, 1):
        figure.add_trace(_bars(recording, view.kind, key, found, unit), at, 1)
        if view.kind is None:
            for trace in _marks(view, recording, key, list(found), unit):
                figure.add_trace(trace, at, 1)
    figure.update_layout(bargap=0.32)
    if key.endswith("tokens_per_second"):
        _plain_lines(figure, frames, view.kind, key)
    told(figure, _spoken(frames, said), unit)
    return _chart(view, title, figure, frames)


def _bars(
    recording: Recording, kind: str | None, key: str, found: dict[str, float], unit: str
) -> go.Bar:
    spreads = [_spread(recording.figures(name, kind), key, value) for name, value in found.items()]
    texts = [
        f"{shown(name)}<br>{value:.2f} {unit}" + (f"<br>{low:.2f} to {high:.2f}" if low else "")
        for (name, value), (low, high) in zip(found.items(), spreads, strict=True)
    ]
    return go.Bar(
        x=list(found.values()), y=list(found), orientation="h",
        name=kind or "all kinds", hovertext=texts, hoverinfo="text",
        marker={"color": [colour(name) for name in found], "line": {"width": 0}},
        error_x={
            "array": [high - value if low else 0 for value, (low, high) in
                      zip(found.values(), spreads, strict=True)],
            "arrayminus": [value - low if low else 0 for value, (low, _) in
                           zip(found.values(), spreads, strict=True)],
            "visible": any(low for low, _ in spreads), "color": INK, "thickness": 1.6, "width": 4,
        },
    )  # fmt: skip


def _spread(figures: Figures, key: str, value: float) -> tuple[float, float]:
    """The ends of a spread; (0, 0) where only one pass was recorded."""
    ends = numbers(figures.get(f"{key}_spread"), 2)
    return (ends[0], ends[1]) if ends and ends[0] <= value <= ends[1] > ends[0] else (0.0, 0.0)


def _marks(
    view: View, recording: Recording, key: str, found: Sequence[str], unit: str
) -> list[go.Scatter]:
    """The kinds of prompt, each with a symbol of its own."""
    traces = []
    for kind in recording.kinds:
        points = [
            (name, value)
            for name in found
            if (value := above_zero(recording.figures(name, kind).get(key))) is not None
        ]
        traces.append(
            go.Scatter(
                x=[value for _, value in points], y=[name for name, _ in points], mode="markers",
                name=label(kind, 18), hoverinfo="text",
                hovertext=[f"{shown(name)}<br>{label(kind)}: {value:.2f} {unit}"
                           for name, value in points],
                marker={"symbol": view.symbol(kind), "size": 9, "color": INK,
                        "line": {"width": 1.8, "color": INK}},
            )
        )  # fmt: skip
    return traces


def _plain_lines(figure: go.Figure, frames: Frames, kind: str | None, key: str) -> None:
    """A dotted line at plain decoding's speed, where that was recorded."""
    for at, (recording, _) in enumerate(frames, 1):
        plain = above_zero(recording.figures("vanilla", kind).get(key))
        if plain:
            line = {"color": INK, "width": 1.5, "dash": "dot"}
            figure.add_vline(plain, line=line, row=at, col=1, layer="above")


def acceptance(view: View) -> Chart:
    """How many of the cycles accept at least k drafts: a row per method, a column per k."""
    title = "Acceptance per draft position"
    frames = _frames(view, lambda one, name: _rates(one.figures(name, view.kind)))
    figure = _figure(frames, title, "draft position")
    for at, (_, found) in enumerate(frames, 1):
        figure.add_trace(_grid(found), at, 1)
    figure.update_xaxes(dtick=1, showgrid=False, rangemode="normal")
    told(figure, _spoken(frames, _ends), "share of the cycles that accept at least so many")
    return _chart(view, title, figure, frames)


def _ends(rates: list[float]) -> str:
    words = f"{rates[0]:.0f} % at position 1"
    return words if len(rates) == 1 else f"{words} to {rates[-1]:.0f} % at {len(rates)}"


def _rates(figures: Figures) -> list[float]:
    rates = figures.get("acceptance_by_position")
    found = [number(rate) for rate in rates] if isinstance(rates, list) else []
    return [] if None in found else [100 * rate for rate in found if rate is not None]


def _grid(found: dict[str, list[float]]) -> go.Heatmap:
    most = max(map(len, found.values()))
    # A path never reached has no rate: nothing is drawn there, not even a zero.
    table = [rates + [None] * (most - len(rates)) for rates in found.values()]
    texts = [[f"{rate:.0f} %" if rate is not None else "" for rate in row] for row in table]
    hover = [
        [f"{shown(name)}<br>position {k}: {rate:.1f} % of cycles" if rate is not None else ""
         for k, rate in enumerate(row, 1)]
        for name, row in zip(found, table, strict=True)
    ]  # fmt: skip
    return go.Heatmap(
        x=list(range(1, most + 1)), y=list(found), z=table, zmin=0, zmax=100, text=texts,
        texttemplate="%{text}", hovertext=hover, hoverinfo="text", showscale=False, xgap=3, ygap=3,
        colorscale=[[0, "rgba(15, 157, 138, 0.04)"], [1, "rgba(15, 157, 138, 0.62)"]],
    )  # fmt: skip


def times(view: View) -> Chart:
    """Milliseconds of a cycle by phase. Recorded over all kinds of prompt together."""
    title = "Time of a cycle"
    frames = _frames(view, lambda one, name: phase_times(one.figures(name)))
    figure = _figure(frames, title, "milliseconds", _whole)
    for at, (_, found) in enumerate(frames, 1):
        for phase, tint in PHASE_COLOURS.items():
            figure.add_trace(_phase(found, phase, tint), at, 1)
    figure.update_layout(barmode="stack", bargap=0.32)
    told(figure, _spoken(frames, _whole), "milliseconds")
    return _chart(view, title, figure, frames)


def _whole(spent: dict[str, float]) -> str:
    return f"{sum(spent.values()):.1f}"


def _phase(found: dict[str, dict[str, float]], phase: str, tint: str) -> go.Bar:
    texts = [
        f"{shown(name)}<br>{phase}: {spent[phase]:.2f} of {sum(spent.values()):.2f} ms "
        f"({100 * spent[phase] / sum(spent.values()):.0f} %)"
        for name, spent in found.items()
    ]
    return go.Bar(
        x=[spent[phase] for spent in found.values()], y=list(found), orientation="h", name=phase,
        hovertext=texts, hoverinfo="text",
        marker={"color": tint, "line": {"width": 0},
                "pattern": {"shape": "/" if phase == "draft" else "", "solidity": 0.35}},
    )  # fmt: skip


def colour(name: str) -> str:
    """A method's colour everywhere on the page; grey for one that is not ours."""
    return names.colour(name if shown(name) == names.label(name) else "")


def _frames(view: View, value: Callable[[Recording, str], Any]) -> Frames:
    """Each recording with the value of every method that has one; those with none left out."""
    found = [
        (one, {name: known for name in view.of(one) if (known := value(one, name))})
        for one in view.recordings
    ]
    return [(one, values) for one, values in found if values]


def _figure(
    frames: Frames, title: str, unit: str, said: Callable[[Any], str] | None = None
) -> go.Figure:
    """An empty frame per recording, under its name, with a row for each of its methods.

    said  a method's value in a few letters, to stand beside its name: readable in every theme
    """
    counts = [len(values) for _, values in frames] or [1]
    inner = ROW * sum(counts) + FRAME * (len(counts) - 1)
    figure = make_subplots(
        len(counts), 1, row_heights=counts, shared_xaxes=True,
        vertical_spacing=FRAME / inner if len(counts) > 1 else 0,
        subplot_titles=[label(one.name, 40) for one, _ in frames],
    )  # fmt: skip
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_layout(plain_layout(title, "", ""))
    figure.update_layout(
        height=HEAD + inner + FOOT, margin={"l": 8, "r": 18, "t": HEAD, "b": FOOT},
        showlegend=False,  # the page has its own, which wraps on narrow screens
        hoverlabel={"align": "left"},
    )  # fmt: skip
    figure.update_xaxes(gridcolor=GRID, zeroline=False, rangemode="tozero")
    figure.update_xaxes(title={"text": unit, "font": {"size": 13}}, row=len(counts))
    for at, (_, values) in enumerate(frames, 1):
        beside = {name: f"  <b>{said(value)}</b>" if said else "" for name, value in values.items()}
        figure.update_yaxes(
            type="category", categoryorder="array", categoryarray=list(values),
            tickvals=list(values), ticktext=[shown(name) + beside[name] for name in values],
            range=[len(values) - 0.5, -0.5], automargin=True, showgrid=False, zeroline=False,
            ticklen=6, tickcolor="rgba(0,0,0,0)", row=at, col=1,
        )  # fmt: skip
    return figure


def _spoken(frames: Frames, said: Callable[[Any], str]) -> list[str]:
    """Each recording's values in words: one part, since what a method says may have commas."""
    parts = []
    for one, values in frames:
        each = [f"{unescape(shown(name))} {said(value)}" for name, value in values.items()]
        parts.append(f"{one.name}: {', '.join(each)}")
    return ["; ".join(parts)]


def _chart(view: View, title: str, figure: go.Figure, frames: Frames) -> Chart:
    """The figure with what it lacks; none where it has nothing."""
    there = {one.name: values for one, values in frames}
    missing = [
        name
        for one in view.recordings
        for name in view.of(one)
        if name not in there.get(one.name, {})
    ]
    return Chart(title, figure if frames else None, tuple(dict.fromkeys(missing)))


def legend(view: View, name: str) -> list[tuple[str, str, str]]:
    """(glyph, its colour, word) of what a chart of CHARTS tells apart; "" for the page's ink."""
    if name == "times":
        return [("▨" if phase == "draft" else "■", tint, phase)
                for phase, tint in PHASE_COLOURS.items()]  # fmt: skip
    if name == "acceptance" or view.kind:
        return []
    kinds = dict.fromkeys(kind for one in view.recordings for kind in one.kinds)
    return [(SYMBOLS[view.symbol(kind)], "", kind) for kind in kinds]


Draw = Callable[[View], Chart]
CHARTS: dict[str, Draw] = {
    "tau": lambda view: bars(view, "tau", "Acceptance length τ", "tokens per target forward"),
    "speed": lambda view: bars(
        view, "tokens_per_second", "Tokens per second, whole runs", "tokens/s"
    ),
    "decoding": lambda view: bars(
        view, "decode_tokens_per_second", "Tokens per second, decoding alone", "tokens/s"
    ),
    "acceptance": acceptance,
    "times": times,
}
