"""Charts of recorded benchmarks: a row per method, a frame per recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from demo.common import methods as names
from demo.common.charts import DOTTED, GRID, INK, PHASES, bars, label, look, told
from demo.common.numbers import listed, number, positive
from demo.common.spread import Spread
from moa_core.bench.records import Recording, phase_times

ROW, FRAME, HEAD, FOOT = 27, 34, 66, 46  # pixels: a method, between frames, above, below
SYMBOLS = {  # plotly's name, and the letter that stands for it in the legend
    "circle-open": "○", "square-open": "□", "diamond-open": "◇", "triangle-up-open": "△",
    "cross-open": "✚", "x-open": "✖", "triangle-down-open": "▽", "star-open": "☆",
}  # fmt: skip
PHASE_COLOURS = {phase: PHASES[phase] for phase in ("draft", "verify", "other")}
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

    @property
    def symbols(self) -> dict[str, str]:
        """The mark of each kind of prompt, the same in every recording."""
        kinds = dict.fromkeys(kind for one in self.recordings for kind in one.kinds)
        return {kind: list(SYMBOLS)[at % len(SYMBOLS)] for at, kind in enumerate(kinds)}

    def frames(self, value: Callable[[Recording, str], Any]) -> Frames:
        """Each recording with the value of every method that has one; those with none left out."""
        found = [
            (one, {name: known for name in self.of(one) if (known := value(one, name))})
            for one in self.recordings
        ]
        return [(one, values) for one, values in found if values]


def shown(name: str) -> str:
    """A method's name as people read it; one that is not ours stays as it is."""
    known = names.label(name) != name
    return names.label(name) if known else label(name, 22)


def colour(name: str) -> str:
    """A method's colour everywhere on the page; grey for one that is not ours."""
    return names.colour(name if shown(name) == names.label(name) else "")


def rates(view: View, key: str, title: str, unit: str) -> Chart:
    """A figure of each method, with its spread, and where all kinds are meant a mark for each."""
    frames = view.frames(lambda one, name: positive(one.figures(name, view.kind).get(key)))
    digits = 2 if key == "tau" else 0
    chart = _chart(view, title, frames, unit, unit, lambda value: f"{value:.{digits}f}")
    for at, (recording, found) in enumerate(frames, 1):
        spreads = [_spread(recording.figures(name, view.kind).get(f"{key}_spread"), value)
                   for name, value in found.items()]  # fmt: skip
        hover = [
            f"{shown(name)}<br>{one.middle:.2f} {unit}"
            + (f"<br>{one.low:.2f} to {one.high:.2f}" if one.known else "")
            for name, one in zip(found, spreads, strict=True)
        ]
        made = bars(list(found), list(found.values()), [colour(name) for name in found],
                    view.kind or "all kinds", "", hover, spreads, lying=True)  # fmt: skip
        chart.figure.add_trace(made, at, 1)
        for mark in _marks(view, recording, key, list(found), unit):
            chart.figure.add_trace(mark, at, 1)
        plain = positive(recording.figures("vanilla", view.kind).get(key))
        if key.endswith("tokens_per_second") and plain:
            chart.figure.add_vline(plain, line=DOTTED, row=at, col=1, layer="above")
    return chart


def _spread(ends: Any, value: float) -> Spread:
    """Around a value; the value alone where a single pass was recorded."""
    low, high = ([number(end) for end in listed(ends)[:2]] + [None, None])[:2]
    if low is None or high is None or not low <= value <= high or high <= low:
        return Spread(value, value, value)
    return Spread(value, low, high)


def _marks(
    view: View, recording: Recording, key: str, found: Sequence[str], unit: str
) -> list[go.Scatter]:
    """The kinds of prompt, each with a symbol of its own."""
    marks = []
    for kind in recording.kinds if view.kind is None else ():
        points = {
            name: value
            for name in found
            if (value := positive(recording.figures(name, kind).get(key))) is not None
        }
        ink = {"color": INK, "size": 9, "line": {"width": 1.8, "color": INK}}
        hover = [f"{shown(name)}<br>{label(kind)}: {value:.2f} {unit}"
                 for name, value in points.items()]  # fmt: skip
        marks.append(
            go.Scatter(
                x=list(points.values()), y=list(points), mode="markers", name=label(kind, 18),
                hoverinfo="text", hovertext=hover, marker={"symbol": view.symbols[kind], **ink},
            )
        )  # fmt: skip
    return marks


def acceptance(view: View) -> Chart:
    """How many of the cycles accept at least k drafts: a row per method, a column per k."""
    frames = view.frames(lambda one, name: _positions(one.figures(name, view.kind)))
    unit = "share of the cycles that accept at least that many"
    title = "Acceptance per draft position"
    chart = _chart(view, title, frames, "draft position", unit, _ends, beside=False)
    for at, (_, found) in enumerate(frames, 1):
        chart.figure.add_trace(_grid(found), at, 1)
    if chart.figure:
        chart.figure.update_xaxes(dtick=1, showgrid=False, rangemode="normal")
    return chart


def _ends(found: list[float]) -> str:
    words = f"{found[0]:.0f} % at position 1"
    return words if len(found) == 1 else f"{words} to {found[-1]:.0f} % at {len(found)}"


def _positions(figures: dict[str, Any]) -> list[float]:
    found = [number(rate) for rate in listed(figures.get("acceptance_by_position"))]
    return [] if None in found else [100 * rate for rate in found if rate is not None]


def _grid(found: dict[str, list[float]]) -> go.Heatmap:
    most = max(map(len, found.values()))
    # A path never reached has no rate: nothing is drawn there, not even a zero.
    table = [row + [None] * (most - len(row)) for row in found.values()]

    def each(words: Callable[[str, int, float], str]) -> list[list[str]]:
        return [
            ["" if rate is None else words(name, k, rate) for k, rate in enumerate(row, 1)]
            for name, row in zip(found, table, strict=True)
        ]

    return go.Heatmap(
        x=list(range(1, most + 1)), y=list(found), z=table, zmin=0, zmax=100, hoverinfo="text",
        text=each(lambda name, k, rate: f"{rate:.0f} %"), texttemplate="%{text}",
        hovertext=each(
            lambda name, k, rate: f"{shown(name)}<br>position {k}: {rate:.1f} % of cycles"
        ),
        showscale=False, xgap=3, ygap=3,
        colorscale=[[0, "rgba(15, 157, 138, 0.04)"], [1, "rgba(15, 157, 138, 0.62)"]],
    )  # fmt: skip


def times(view: View) -> Chart:
    """Milliseconds of a cycle by phase. Recorded over all kinds of prompt together."""
    frames = view.frames(lambda one, name: phase_times(one.figures(name)))
    unit = "milliseconds"
    chart = _chart(
        view, "Time of a cycle", frames, unit, unit, lambda spent: f"{sum(spent.values()):.1f}"
    )
    for at, (_, found) in enumerate(frames, 1):
        for phase, tint in PHASE_COLOURS.items():
            hover = [
                f"{shown(name)}<br>{phase}: {spent[phase]:.2f} of {sum(spent.values()):.2f} ms "
                f"({100 * spent[phase] / sum(spent.values()):.0f} %)"
                for name, spent in found.items()
            ]
            values = [spent[phase] for spent in found.values()]
            pattern = "/" if phase == "draft" else ""
            made = bars(list(found), values, tint, phase, pattern, hover, lying=True)
            chart.figure.add_trace(made, at, 1)
    if chart.figure:
        chart.figure.update_layout(barmode="stack")
    return chart


def _chart(
    view: View, title: str, frames: Frames, axis: str, unit: str, said: Callable[[Any], str],
    beside: bool = True,
) -> Chart:  # fmt: skip
    """An empty frame per recording, under its name, with a row for each of its methods.

    said    a method's value in a few letters
    beside  whether that stands beside its name: readable in every theme
    """
    there = {one.name: values for one, values in frames}
    missing = dict.fromkeys(
        name for one in view.recordings for name in view.of(one)
        if name not in there.get(one.name, {})
    )  # fmt: skip
    if not frames:
        return Chart(title, None, tuple(missing))
    counts = [len(values) for _, values in frames]
    inner = ROW * sum(counts) + FRAME * (len(counts) - 1)
    figure = make_subplots(
        len(counts), 1, row_heights=counts, shared_xaxes=True,
        vertical_spacing=FRAME / inner if len(counts) > 1 else 0,
        subplot_titles=[label(one.name, 40) for one, _ in frames],
    )  # fmt: skip
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_layout(
        look(title, "", ""), height=HEAD + inner + FOOT, bargap=0.32,
        margin={"l": 8, "r": 18, "t": HEAD, "b": FOOT}, hoverlabel={"align": "left"},
        showlegend=False,  # the page has its own, which wraps on narrow screens
    )  # fmt: skip
    figure.update_xaxes(gridcolor=GRID, zeroline=False, rangemode="tozero")
    figure.update_xaxes(title={"text": axis, "font": {"size": 13}}, row=len(counts))
    for at, (_, values) in enumerate(frames, 1):
        ticks = [f"{shown(name)}  <b>{said(value)}</b>" if beside else shown(name)
                 for name, value in values.items()]  # fmt: skip
        figure.update_yaxes(
            type="category", categoryorder="array", categoryarray=list(values),
            tickvals=list(values), ticktext=ticks, range=[len(values) - 0.5, -0.5],
            automargin=True, showgrid=False, zeroline=False, ticklen=6, tickcolor="rgba(0,0,0,0)",
            rangemode="normal", row=at, col=1,
        )  # fmt: skip
    # One part, since what a method says may have commas.
    words = "; ".join(
        f"{one.name}: "
        + ", ".join(f"{unescape(shown(name))} {said(value)}" for name, value in values.items())
        for one, values in frames
    )
    return Chart(title, told(figure, [words], unit), tuple(missing))


def legend(view: View, name: str) -> list[tuple[str, str, str]]:
    """(glyph, its colour, word) of what a chart of CHARTS tells apart; "" for the page's ink."""
    if name == "times":
        return [("▨" if phase == "draft" else "■", tint, phase)
                for phase, tint in PHASE_COLOURS.items()]  # fmt: skip
    if name == "acceptance" or view.kind:
        return []
    return [(SYMBOLS[symbol], "", kind) for kind, symbol in view.symbols.items()]


CHARTS: dict[str, Callable[[View], Chart]] = {
    "tau": lambda view: rates(view, "tau", "Acceptance length τ", "tokens per target forward"),
    "speed": lambda view: rates(
        view, "tokens_per_second", "Tokens per second, whole runs", "tokens/s"
    ),
    "decoding": lambda view: rates(
        view, "decode_tokens_per_second", "Tokens per second, decoding alone", "tokens/s"
    ),
    "acceptance": acceptance,
    "times": times,
}
