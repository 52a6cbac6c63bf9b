"""What was recorded of links: charts, and how the recordings were made."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from demo.common.charts import INK, plain_layout, told
from demo.common.methods import colour, label
from moa_core.bench.link_files import FOLDER, Row, select
from moa_core.bench.link_files import recorded as read_all
from moa_core.errors import UserError

log = logging.getLogger(__name__)

NONE = (
    "<p>No results over links are recorded here yet. They are made by <code>python -m moa_core "
    "bench --link …</code> and <code>--offline</code>.</p>"
)
READ = "<p>API streaming has no drafter: the server sends each token as it writes it.</p>"
SHAPES = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "triangle-down")
NAMES = {"stream": "API streaming", "target": "the target itself"}
DASHED = ("stream", "target")  # what drafts are compared with


def recorded(folder: Path = FOLDER) -> dict[str, Row]:
    """The recordings by name; none, with a word in the log, where their files are damaged."""
    try:
        return read_all(folder)
    except UserError as error:
        log.warning("no recordings of links: %s", error)
        return {}


def records_html(found: dict[str, Row]) -> str:
    """What is shown of them; without any, a sentence."""
    if not found:
        return NONE
    lines = [
        f"<li><b>{escape(name)}</b>: {escape(str(one['kind']))}, {escape(str(one.get('date')))}; "
        f"<code>{escape(str(one.get('command')))}</code></li>"
        for name, one in found.items()
    ]
    return (
        f"{READ}<details><summary>How these were measured: commands and dates</summary>"
        f"<ul>{''.join(lines)}</ul></details>"
    )


def recorded_charts(found: dict[str, Row]) -> list[go.Figure]:
    """Accuracy after a cut, and time per token over links, of the recordings that there are."""
    made = {"offline": (right_alone, trusted_alone), "link": (by_link,)}
    return [
        chart(one)
        for kind, charts in made.items()
        for one in found.values()
        if one["kind"] == kind
        for chart in charts
    ]


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


def by_link(recording: Row) -> go.Figure:
    """Milliseconds a token over each link, in the order in which they were measured."""
    links = list(recording["links"])
    figure = go.Figure(layout=plain_layout("Time per token over a link", "link", "ms a token"))
    rows = [row for row in recording["rows"] if row["link"] in links]
    for at, (method, mine) in enumerate(_grouped(rows).items()):
        x, y = [row["link"] for row in mine], [row["ms_per_token"] for row in mine]
        figure.add_trace(_line(at, method, x, y))
    figure.update_yaxes(rangemode="tozero")
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


def _line(at: int, method: str, x: Sequence[float | str], y: Sequence[float]) -> go.Scatter:
    shade = INK if method in DASHED else colour(method)
    name = NAMES.get(method) or label(method)
    return go.Scatter(
        x=list(x), y=list(y), name=name, mode="lines+markers",
        line={"color": shade, "dash": "dash" if method in DASHED else "solid"},
        marker={"symbol": SHAPES[at % len(SHAPES)], "size": 8, "color": shade},
        hovertemplate=f"{name}: %{{y:.3g}} at %{{x}}<extra></extra>",
    )  # fmt: skip


def _worded(figure: go.Figure, unit: str) -> go.Figure:
    # Below, where plotly makes room for it: on a phone it has a line for each method.
    figure.update_layout(height=460, margin={"t": 48}, legend={"y": -0.34, "yanchor": "top"})
    ends = [f"{line.name} from {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in figure.data]
    return told(figure, ends, unit)
