"""What was recorded of links, as figures: pure functions from recordings."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from demo.charts import INK, plain_layout, told
from demo.methods import colour, label
from moa_core.bench.link_files import Row, select

SHAPES = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "triangle-down")
NAMES = {"stream": "API streaming", "target": "the target itself"}
DASHED = ("stream", "target")  # what drafts are held against
TIMES = [one * power for power in (1, 10, 100, 1000) for one in (1, 2, 5)]  # ms
MAPPED = {"down_mbps": 9, "up_mbps": 1.5, "loss": 0, "clients": 1}


def name_of(method: str) -> str:
    """A method's name on the page."""
    return NAMES.get(method) or label(method)


def right_alone(recording: Row) -> go.Figure:
    """Share of tasks right, by when the link was cut for ever."""
    return _by_cut(
        select(recording["rows"], kind="tasks"), "right", 100,
        "Right answers when the link is cut for ever", "% of held-out tasks right",
    )  # fmt: skip


def trusted_alone(recording: Row) -> go.Figure:
    """What the target itself thinks of the stories and dialogues that were ended offline."""
    return _by_cut(
        select(recording["rows"], kind="texts"), "log_prob", 1,
        "How the target finds what was written alone", "nats a token; 0 is certain",
    )  # fmt: skip


def by_round_trip(recording: Row) -> go.Figure:
    """Milliseconds a token over round trips, at 9 Mbit/s down and 1.5 up."""
    cells = select(recording["cells"], where="link", **MAPPED)
    figure = go.Figure(
        layout=plain_layout("Time per token over a link", "round trip, ms", "ms a token")
    )
    for at, (method, rows) in enumerate(_grouped(cells).items()):
        figure.add_trace(
            _line(
                at, method, [row["rtt_ms"] for row in rows], [row["ms_per_token"] for row in rows]
            )
        )
    figure.update_xaxes(type="log", tickvals=sorted({row["rtt_ms"] for row in cells}))
    figure.update_yaxes(type="log", tickvals=TIMES)  # plotly's own: 9 below 100 for 90
    return _worded(figure, "ms")


def _by_cut(rows: Sequence[Row], key: str, scale: float, title: str, unit: str) -> go.Figure:
    figure = go.Figure(layout=plain_layout(title, "% of the answer verified before the cut", unit))
    for at, (method, mine) in enumerate(_grouped(rows).items()):
        found = [row for row in mine if row.get(key) is not None]
        if found:
            cuts = [100 * row["cut"] for row in found]
            figure.add_trace(_line(at, method, cuts, [scale * row[key] for row in found]))
    return _worded(figure, unit)


def _grouped(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


def _line(at: int, method: str, x: Sequence[float], y: Sequence[float]) -> go.Scatter:
    shade = INK if method in DASHED else colour(method)
    return go.Scatter(
        x=list(x), y=list(y), name=name_of(method), mode="lines+markers",
        line={"color": shade, "dash": "dash" if method in DASHED else "solid"},
        marker={"symbol": SHAPES[at % len(SHAPES)], "size": 8, "color": shade},
        hovertemplate=f"{name_of(method)}: %{{y:.3g}} at %{{x:g}}<extra></extra>",
    )  # fmt: skip


def _worded(figure: go.Figure, unit: str) -> go.Figure:
    # Below, where plotly makes room for it: on a phone it has a line for each method.
    figure.update_layout(height=460, margin={"t": 48}, legend={"y": -0.34, "yanchor": "top"})
    ends = [f"{line.name} from {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in figure.data]
    return told(figure, ends, unit)
