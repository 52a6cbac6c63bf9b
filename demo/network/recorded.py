"""What was recorded of links: charts, and how the recordings were made."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from demo.common.charts import INK, chart, line
from demo.common.methods import colour, label
from moa_core.bench.records import LINK_FOLDER, Row, select
from moa_core.bench.records import recorded as read_all
from moa_core.errors import UserError

log = logging.getLogger(__name__)

NONE = (
    "<p>No results over links are recorded here yet. To record them, run <code>python -m moa_core "
    "bench --link …</code> and <code>--offline</code>.</p>"
)
READ = "<p>API streaming has no drafter: the server sends each token as it writes it.</p>"
SHAPES = (
    "circle", "square", "diamond", "triangle-up", "x", "cross", "star", "triangle-down", "hexagon",
)  # fmt: skip
NAMES = {"stream": "API streaming", "target": "the target itself"}  # dashed: what is compared with
CUT = "% of the answer verified before the cut"
OFFLINE = {  # rows of this kind: key, factor, title, unit
    "tasks": ("right", 100, "Right answers when the link never comes back",
              "% of held-out tasks right"),
    "texts": ("log_prob", 1, "How plausible the target finds offline text",
              "log-probability per token"),
}  # fmt: skip


def recorded(folder: Path = LINK_FOLDER) -> dict[str, Row]:
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
    made = [
        _lines(select(one["rows"], kind=kind), "cut", key, (100, factor), title, CUT, unit, unit)
        for one in found.values()
        if one["kind"] == "offline"
        for kind, (key, factor, title, unit) in OFFLINE.items()
    ]
    for one in found.values():
        if one["kind"] == "link":
            rows = [row for row in one["rows"] if row["link"] in one["links"]]
            title, axis = "Time per token over a link", "ms per token"
            drawn = _lines(rows, "link", "ms_per_token", (1, 1), title, "link", axis, "ms")
            made.append(drawn.update_yaxes(rangemode="tozero"))
    return made


def _lines(
    rows: Sequence[Row], along: str, key: str, factors: tuple[int, int], title: str, x: str, y: str,
    unit: str,
) -> go.Figure:  # fmt: skip
    """A line for each method over what `along` names; factors: of x and y."""
    by_method: dict[str, list[Row]] = {}
    for row in rows:
        if row.get(key) is not None:
            by_method.setdefault(row["method"], []).append(row)
    lines = []
    for at, (method, mine) in enumerate(by_method.items()):
        name, dash = NAMES.get(method) or label(method), "dash" if method in NAMES else "solid"
        lines.append(
            line([row[along] * factors[0] for row in mine], [row[key] * factors[1] for row in mine],
                 name, INK if method in NAMES else colour(method),
                 f"{name}: %{{y:.3g}} at %{{x}}", mode="lines+markers",
                 line={"dash": dash, "width": 2},
                 marker={"symbol": SHAPES[at % len(SHAPES)], "size": 8})
        )  # fmt: skip
    ends = [f"{one.name} from {one.y[0]:.3g} to {one.y[-1]:.3g}" for one in lines]
    # The legend is below, where plotly makes room for it: on a phone it has a line a method.
    return chart(
        lines, title, x, y, ends, unit, height=460, margin={"t": 48}, showlegend=True,
        legend={"y": -0.34, "yanchor": "top"}, yaxis={"rangemode": "normal"},
        xaxis={"rangemode": "normal"},
    )  # fmt: skip
