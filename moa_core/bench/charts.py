"""Figures of a benchmark's results. Any value may be missing or odd: it is left out and named."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

# Okabe and Ito's colours without yellow and black, which vanish on white and on near-black.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#aa4499")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
INK, GRID = "#8a8580", "rgba(138, 133, 128, 0.25)"  # the page restyles both by colour scheme
PHASES = {"draft": 1.0, "verify": 0.55, "other": 0.22}  # opacity: the colour is the method's
FEWEST_CYCLES = 5  # a bin of reply positions with fewer says nothing


@dataclass(frozen=True)
class Chart:
    """A figure and what the page says around it."""

    title: str
    figure: go.Figure | None  # None: nobody has the numbers
    missing: tuple[str, ...] = ()  # methods that are not in the figure
    note: str = ""
    legend: str = ""  # bars, lines, phases, or none needed
    width: int = 0  # in pixels; on narrower screens the chart scrolls in its own box
    absent: str = "unmeasured"


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def above_zero(value: Any) -> float | None:
    """A number where 0 can only mean that nothing was measured."""
    found = number(value)
    return found if found and found > 0 else None


def numbers(value: Any, count: int) -> list[float] | None:
    """The first so many numbers of a list; None if one of them is missing."""
    row = [number(item) for item in listed(value)[:count]]
    known = [item for item in row if item is not None]
    return known if len(known) == count else None


def mapping(value: Any) -> dict[str, Any]:
    """A dictionary with strings as keys, empty if it is none."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """A list, empty if it is none."""
    return list(value) if isinstance(value, list | tuple) else []


def methods(results: dict[str, Any]) -> list[tuple[int, str, dict[str, Any]]]:
    """Place, name and figures of each method, in the results' order."""
    found = mapping(results.get("methods")).items()
    return [(place, name, mapping(figures)) for place, (name, figures) in enumerate(found)]


def kinds(results: dict[str, Any]) -> list[str]:
    """Kinds of prompt, in order of first appearance."""
    return list(
        dict.fromkeys(
            kind for _, _, figures in methods(results) for kind in mapping(figures.get("kinds"))
        )
    )


def cycles(figures: dict[str, Any]) -> float | None:
    """Target forwards after the prefills."""
    bins = [numbers(row, 3) for row in listed(figures.get("tau_by_place"))]
    counted = sum(row[2] for row in bins if row)
    calls, prompts = number(figures.get("target_calls")), number(figures.get("prompts"))
    return counted or (above_zero(calls - prompts) if calls and prompts else None)


def phase_times(figures: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a mean cycle by phase; empty where that was not recorded."""
    seconds, count = mapping(figures.get("seconds")), cycles(figures)
    spent = {phase: number(seconds.get(phase)) for phase in PHASES}
    if not count or None in spent.values() or not sum(filter(None, spent.values())) > 0:
        return {}
    return {phase: 1000 * (part or 0) / count for phase, part in spent.items()}


def label(name: str, width: int = 26) -> str:
    """A name from outside as plotly may show it: short, and no markup."""
    plain = " ".join(name.split())
    return escape(plain if len(plain) <= width else plain[: width - 1] + "…", quote=False)


def by_kind(results: dict[str, Any], key: str, title: str, unit: str) -> Chart:
    """Grouped bars with their spread: all kinds together, then each."""
    found, groups = methods(results), ["all kinds", *kinds(results)]
    traces, missing = [], []
    for place, name, figures in found:
        per_kind = mapping(figures.get("kinds"))
        parts = [figures, *(mapping(per_kind.get(kind)) for kind in groups[1:])]
        bars = [
            (at, value, numbers(part.get(f"{key}_spread"), 2))
            for at, part in enumerate(parts)
            if (value := above_zero(part.get(key))) is not None
        ]
        # Two traces, since plotly draws a missing whisker as one of length zero.
        some = [[bar for bar in bars if bool(bar[2]) is known] for known in (True, False)]
        traces += [_upright(place, name, groups, part, unit) for part in some if part]
        missing += [] if bars else [name]
    width = 90 + 13 * len(found) * len(groups)
    figure = _figure(traces, "kind of prompt", f"{key.split('_')[0]} ({unit})", 340)
    if key == "tau":
        figure.update_yaxes(title_text=f"τ ({unit})")
    ticks = [label(group, 18) for group in groups]
    figure.update_xaxes(tickvals=list(range(len(groups))), ticktext=ticks, showgrid=False)
    figure.update_layout(barmode="group", bargap=0.18, bargroupgap=0.08)
    spread = (
        "95 % of resamples of the prompts" if key == "tau" else "the slowest to the fastest pass"
    )
    note = f"Whiskers: {spread}."
    return Chart(title, figure if traces else None, tuple(missing), note, "bars", width)


def _upright(
    place: int, name: str, groups: list[str], bars: list[tuple[Any, ...]], unit: str
) -> go.Bar:
    """One method's bars, either all with whiskers or all without."""
    values = [value for _, value, _ in bars]
    spreads = [spread for _, _, spread in bars if spread]
    texts = [
        f"{label(name)}<br>{label(groups[at])}: {value:.2f} {unit}"
        + (f"<br>spread {spread[0]:.2f} to {spread[1]:.2f}" if spread else "")
        for at, value, spread in bars
    ]
    pairs = list(zip(values, spreads, strict=False))  # whole where there are spreads at all
    whiskers = {
        "array": [max(0, high - value) for value, (_, high) in pairs],
        "arrayminus": [max(0, value - low) for value, (low, _) in pairs],
        "color": INK, "thickness": 1.2, "width": 2,
    }  # fmt: skip
    return go.Bar(
        x=[at for at, _, _ in bars], y=values, error_y=whiskers if spreads else None,
        offsetgroup=str(place), marker=_fill(place), hovertext=texts, hoverinfo="text",
    )  # fmt: skip


def acceptance(results: dict[str, Any]) -> Chart:
    """Acceptance rate at each draft position."""

    def points(figures: dict[str, Any]) -> list[tuple[float, float, str]]:
        rates = map(number, listed(figures.get("acceptance_by_position")))
        return [
            (at, 100 * rate, f"draft position {at}: {100 * rate:.1f} %")
            for at, rate in enumerate(rates, 1)
            if rate is not None
        ]

    axes = ("draft position (tokens after the last verified one)", "accepted (%)")
    chart = _lines(results, "Acceptance rate per draft position", points, axes)
    if chart.figure:
        chart.figure.update_xaxes(dtick=1)
    return chart


def by_place(results: dict[str, Any]) -> Chart:
    """Acceptance length along the reply."""

    def points(figures: dict[str, Any]) -> list[tuple[float, float, str]]:
        rows = [numbers(row, 3) for row in listed(figures.get("tau_by_place"))]
        return [
            (row[0], row[1], f"from token {row[0]:g}: τ {row[1]:.2f} ({row[2]:g} cycles)")
            for row in rows
            if row and row[2] >= FEWEST_CYCLES
        ]

    note = (
        f"A point stands at the start of its bin; bins with under {FEWEST_CYCLES} cycles left out."
    )
    axes = ("position in the reply (tokens)", "τ (tokens per target forward)")
    return _lines(results, "τ against position in the reply", points, axes, note)


def training(results: dict[str, Any]) -> Chart:
    """Acceptance length as training went on."""

    def points(figures: dict[str, Any]) -> list[tuple[float, float, str]]:
        kept = mapping(figures.get("training")).get("metrics") or figures.get("metrics")
        found = []
        for entry in map(mapping, listed(kept)):
            seconds, tau = number(entry.get("seconds")), above_zero(entry.get("tau"))
            updates = number(entry.get("updates"))
            if seconds is not None and tau is not None:
                tail = f", {updates:g} updates" if updates is not None else ""
                found.append((seconds, tau, f"{seconds:,.0f} s{tail}: τ {tau:.2f}"))
        return found

    axes = ("training time (s)", "τ (tokens per target forward)")
    title = "τ against training time"
    return _lines(results, title, points, axes, absent="not recorded")


def _lines(
    results: dict[str, Any],
    title: str,
    points: Callable[[dict[str, Any]], list[tuple[float, float, str]]],
    axes: tuple[str, str],
    note: str = "",
    absent: str = "unmeasured",
) -> Chart:
    """A line per method through its points (x, y, text)."""
    found = [(place, name, points(figures)) for place, name, figures in methods(results)]
    traces = [
        go.Scatter(
            x=[x for x, _, _ in drawn], y=[y for _, y, _ in drawn], mode="lines+markers",
            line={"color": PALETTE[place % len(PALETTE)], "width": 2, "dash": _dash(place)},
            marker={"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 8},
            hovertext=[f"{label(name)}<br>{text}" for _, _, text in drawn], hoverinfo="text",
            cliponaxis=False,
        )
        for place, name, drawn in found
        if drawn
    ]  # fmt: skip
    missing = tuple(name for _, name, drawn in found if not drawn)
    figure = _figure(traces, *axes, 320) if traces else None
    return Chart(title, figure, missing, note, "lines", absent=absent)


def cycle_times(results: dict[str, Any]) -> Chart:
    """Milliseconds of a cycle by phase, a bar per method."""
    rows, missing = [], []
    for place, name, figures in methods(results):
        if spent := phase_times(figures):
            rows.append((place, name, list(spent.values())))
        else:
            missing.append(name)
    stacks = [
        [(place, name, times[at], f"{phase}: {times[at]:.2f} of {sum(times):.2f} ms")
         for place, name, times in rows]
        for at, phase in enumerate(PHASES)
    ]  # fmt: skip
    figure = _lying(stacks, "milliseconds per cycle", list(PHASES.values())) if rows else None
    return Chart("Time of a cycle", figure, tuple(missing), legend="phases")


def target_calls(results: dict[str, Any]) -> Chart:
    """How often the target runs for a hundred tokens."""

    def value(figures: dict[str, Any]) -> float | None:
        calls, tokens = (above_zero(figures.get(key)) for key in ("target_calls", "new_tokens"))
        return 100 * calls / tokens if calls and tokens else None

    return _one_each(results, "Target calls", "target calls per 100 new tokens", value)


def energy(results: dict[str, Any]) -> Chart:
    """Joules per token; what the run says of energy is the note."""
    note = results.get("energy")
    chart = _one_each(
        results, "Energy", "joules per token (J)", lambda m: above_zero(m.get("joules_per_token"))
    )
    return Chart(chart.title, chart.figure, chart.missing, note if isinstance(note, str) else "")


def _one_each(
    results: dict[str, Any], title: str, unit: str, value: Callable[[dict[str, Any]], float | None]
) -> Chart:
    """One bar per method that has the number."""
    found = [(place, name, value(figures)) for place, name, figures in methods(results)]
    bars = [(at, name, size, f"{size:.2f} {unit}") for at, name, size in found if size is not None]
    missing = tuple(name for _, name, size in found if size is None)
    return Chart(title, _lying([bars], unit, [1.0]) if bars else None, missing)


def _lying(
    stacks: list[list[tuple[int, str, float, str]]], unit: str, shades: list[float]
) -> go.Figure:
    """Bars to the right, a row per method, from stacks of (place, name, value, text)."""
    rows = range(len(stacks[0]))
    traces = [
        go.Bar(
            x=[value for _, _, value, _ in bars], y=list(rows), orientation="h",
            marker=_fill([place for place, _, _, _ in bars], shade),
            hovertext=[f"{label(name)}<br>{text}" for _, name, _, text in bars], hoverinfo="text",
        )
        for bars, shade in zip(stacks, shades, strict=True)
    ]  # fmt: skip
    figure = _figure(traces, unit, "", 90 + 30 * len(rows))
    names = [label(name, 18) for _, name, _, _ in stacks[0]]
    figure.update_yaxes(
        tickvals=list(rows), ticktext=names, range=[len(rows) - 0.4, -0.6], showgrid=False
    )
    return figure.update_layout(barmode="stack", bargap=0.3)


def _fill(places: int | list[int], shade: float = 1.0) -> dict[str, Any]:
    """A bar's look, by the method's place: past the palette's end the colours return, striped."""
    several = [places] if isinstance(places, int) else places
    colours = [_rgba(PALETTE[place % len(PALETTE)], shade) for place in several]
    shapes = ["/" if place >= len(PALETTE) else "" for place in several]
    one = isinstance(places, int)
    pattern = {"shape": shapes[0] if one else shapes, "solidity": 0.4}
    return {"color": colours[0] if one else colours, "pattern": pattern, "line": {"width": 0}}


def _rgba(colour: str, shade: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {shade})"


def _dash(place: int) -> str:
    return "dot" if place >= len(PALETTE) else "solid"


def _figure(traces: list[Any], x: str, y: str, height: int) -> go.Figure:
    """A figure in the look that all charts of the report share."""
    axis = {"gridcolor": GRID, "zeroline": False, "automargin": True, "rangemode": "tozero"}
    layout = go.Layout(
        template="none",
        height=height,
        margin={"l": 52, "r": 12, "t": 12, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "color": INK, "size": 13},
        showlegend=False,  # the page has its own, which wraps on narrow screens
        dragmode=False,
        hoverlabel={"font": {"size": 13}, "align": "left"},
        xaxis={**axis, "title": {"text": x, "font": {"size": 13}}},
        yaxis={**axis, "title": {"text": y, "font": {"size": 13}}},
    )
    return go.Figure(traces, layout)
