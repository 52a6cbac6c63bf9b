"""Charts of a recorded benchmark: a row for each method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import plotly.graph_objects as go

from demo.common import methods as names
from demo.common.charts import DOTTED, PATTERNS, PHASES, bars, chart
from demo.common.spread import Spread
from moa_core.bench.records import Recording, phase_times

ROW, AROUND = 27, 112  # pixels: a method; above and below them all
Chart = Callable[[Recording, str | None], go.Figure | None]  # of all kinds of prompt, or of one


def shown(name: str) -> str:
    """A method's name as people read it; of one that is not ours, short and without markup."""
    if (known := names.label(name)) != name:
        return known
    plain = " ".join(name.split())
    return escape(plain if len(plain) <= 22 else plain[:21] + "…", quote=False)


def rates(key: str, title: str, unit: str, digits: int) -> Chart:
    """A chart of one figure of each method, with its spread."""

    def draw(recording: Recording, kind: str | None) -> go.Figure | None:
        found = _each(recording, lambda name: recording.figures(name, kind).get(key))
        spreads = [
            Spread(value, *(recording.figures(name, kind).get(f"{key}_spread") or (value, value)))
            for name, value in found.items()
        ]
        hover = [
            f"{shown(name)}<br>{one.middle:.2f} {unit}"
            + (f"<br>{one.low:.2f} to {one.high:.2f}" if one.known else "")
            for name, one in zip(found, spreads, strict=True)
        ]
        tints = [names.colour(name) for name in found]
        drawn = bars(list(found), list(found.values()), tints, "", "", hover, spreads, lying=True)
        said = {name: f"{value:.{digits}f}" for name, value in found.items()}
        figure = _figure([drawn], title, unit, said)
        plain = recording.figures("vanilla", kind).get(key)
        if figure and plain and key != "tau":
            figure.add_vline(plain, line=DOTTED, layer="above")
        return figure

    return draw


def acceptance(recording: Recording, kind: str | None) -> go.Figure | None:
    """How many of the cycles accept at least k drafts: a row per method, a column per k."""
    key = "acceptance_by_position"
    found = _each(recording, lambda name: recording.figures(name, kind).get(key))
    most = max(map(len, found.values()), default=0)
    # A path never reached has no rate: nothing is drawn there, not even a zero.
    table = [[100 * rate for rate in row] + [None] * (most - len(row)) for row in found.values()]
    hover = [
        [f"{shown(name)}<br>position {k}: {100 * rate:.1f} % of cycles"
         for k, rate in enumerate(row, 1)] + [""] * (most - len(row))
        for name, row in found.items()
    ]  # fmt: skip
    percent = [["" if rate is None else f"{rate:.0f} %" for rate in row] for row in table]
    grid = go.Heatmap(
        x=list(range(1, most + 1)), y=list(found), z=table, zmin=0, zmax=100, hoverinfo="text",
        text=percent, texttemplate="%{text}", hovertext=hover, showscale=False, xgap=3, ygap=3,
        colorscale=[[0, "rgba(15, 157, 138, 0.04)"], [1, "rgba(15, 157, 138, 0.62)"]],
    )  # fmt: skip
    said = {name: f"{100 * row[0]:.0f} % at position 1" for name, row in found.items()}
    title = "Acceptance per draft position"
    figure = _figure([grid], title, "share of the cycles", said, beside=False)
    return figure and figure.update_xaxes(
        title_text="draft position", tick0=1, dtick=1, range=[0.5, most + 0.5], showgrid=False
    )


def times(recording: Recording, kind: str | None) -> go.Figure | None:
    """Milliseconds of a cycle by phase. Recorded over all kinds of prompt together."""
    del kind
    found = _each(recording, lambda name: phase_times(recording.figures(name)))
    stack = [
        bars(
            list(found), [spent[phase] for spent in found.values()], PHASES[phase], phase,
            PATTERNS[phase], f"{phase}: %{{x:.2f}} ms", lying=True,
        )
        for phase in ("draft", "verify", "other")
    ]  # fmt: skip
    said = {name: f"{sum(spent.values()):.1f}" for name, spent in found.items()}
    figure = _figure(stack, "Time of a cycle", "milliseconds", said)
    return figure and figure.update_layout(barmode="stack", showlegend=True)


def _each(recording: Recording, value: Callable[[str], Any]) -> dict[str, Any]:
    """What each method has of something, those with nothing left out."""
    found = {name: value(name) for name in recording.methods}
    return {name: known for name, known in found.items() if known}


def _figure(
    traces: Iterable[Any], title: str, unit: str, said: dict[str, str], beside: bool = True
) -> go.Figure | None:
    """A row for each method. said: its value in a few letters; beside: it stands by its name."""
    if not said:
        return None
    words = [f"{shown(name)} {value}" for name, value in said.items()]
    figure = chart(
        traces, title, unit, "", words, unit, height=AROUND + ROW * len(said), showlegend=False,
        bargap=0.32, margin={"l": 8, "r": 18, "t": 66, "b": 46},
    )  # fmt: skip
    ticks = [f"{shown(name)}  <b>{value}</b>" if beside else shown(name)
             for name, value in said.items()]  # fmt: skip
    return figure.update_yaxes(
        type="category", categoryarray=list(said), tickvals=list(said), ticktext=ticks,
        autorange="reversed", automargin=True, showgrid=False, rangemode="normal",
    )  # fmt: skip


CHARTS: dict[str, Chart] = {
    "tau": rates("tau", "Acceptance length τ", "tokens per target call", 2),
    "speed": rates("tokens_per_second", "Tokens per second, whole runs", "tokens/s", 0),
    "decoding": rates(
        "decode_tokens_per_second", "Tokens per second, decoding alone", "tokens/s", 0
    ),
    "acceptance": acceptance,
    "times": times,
}
