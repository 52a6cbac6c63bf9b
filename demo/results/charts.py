"""Charts of a recorded benchmark, a row per method; None without records."""

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from demo.common.by_method import TAU, figures, lines, rows_down, shown, times
from demo.common.figures import Spread
from moa_core.bench.records import Recording, Row, phase_times

SHOWN = 6  # guesses in a row; more are seldom right, and their figures would be too small to read
Chart = Callable[[Recording], go.Figure | None]


def rates(key: str, title: str, unit: str, digits: int) -> Chart:
    """A chart of one figure per method, with its spread."""

    def draw(recording: Recording) -> go.Figure | None:
        known = _each(recording, lambda found: spread(found, key))
        drawn = figures(known, title, unit, digits) if known else None
        if drawn and key == "tau":  # its interval is over prompts, not over passes
            drawn.update_traces(error_x_visible=False, selector={"type": "bar"})
        return drawn

    return draw


def acceptance(recording: Recording) -> go.Figure | None:
    """The share of cycles that accept at least k drafts: a row per method, a column per k."""
    known = _each(recording, lambda found: (found.get("acceptance_by_position") or [])[:SHOWN])
    if not known:
        return None
    most, names = max(map(len, known.values())), [shown(name) for name in known]
    # A depth that was never reached has no rate, so nothing is drawn.
    table = [[100 * rate for rate in row] + [None] * (most - len(row)) for row in known.values()]
    percent = [["" if rate is None else f"{rate:.0f} %" for rate in row] for row in table]
    grid = go.Heatmap(
        x=list(range(1, most + 1)), y=names, z=table, zmin=0, zmax=100, text=percent,
        texttemplate="%{text}", showscale=False, xgap=3, ygap=3, hoverongaps=False,
        hovertemplate="%{y}<br>position %{x}: %{z:.1f} % of cycles<extra></extra>",
        colorscale=[[0, "rgba(15, 157, 138, 0.04)"], [1, "rgba(15, 157, 138, 0.62)"]],
    )  # fmt: skip
    words = [f"{name} {row[0]:.0f} % at position 1" for name, row in zip(names, table, strict=True)]
    title, unit = "Right guesses in a row", "share of the cycles"
    return rows_down([grid], title, "at least so many", words, unit, names).update_xaxes(
        tick0=1, dtick=1, range=[0.5, most + 0.5], showgrid=False
    )


def cycle_times(recording: Recording) -> go.Figure | None:
    known = _each(recording, phase_times)
    return times(known) if known else None


def spread(found: dict[str, Any], key: str) -> Spread | None:
    """A method's figure with its range; None if it was not recorded."""
    value = found.get(key)
    return Spread(value, *(found.get(f"{key}_spread") or (value, value))) if value else None


def _each(recording: Recording, value: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Values by method, without empty ones."""
    methods = recording.methods.items()
    return {name: known for name, found in methods if (known := value(found))}


def ahead(found: Row) -> go.Figure:
    """The share of right guesses of each method by their place in a row."""
    rows = [
        {"method": row["method"], "place": place, "right": 100 * share}
        for row in found["rows"]
        for place, share in enumerate(row["forced"], 1)
    ]
    title, axis = "Right guesses by place", "place of the guess in a row"
    drawn = lines(rows, "place", "right", title, axis, "% right")
    return drawn.update_xaxes(dtick=1).update_yaxes(rangemode="tozero")


def learning(found: Row) -> go.Figure:
    """τ of each method by the updates of its training."""
    return lines(found["rows"], "updates", "tau", TAU[0], "training updates", "τ")


CHARTS: dict[str, Chart] = {
    "speed": rates("tokens_per_second", "Speed", "tokens per second", 0),
    "tau": rates("tau", *TAU),
    "acceptance": acceptance,
    "times": cycle_times,
}
