"""What was recorded of links: charts, and how the recordings were made."""

from __future__ import annotations

import logging
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from demo.network_map_chart import latency_map
from demo.network_recorded_charts import by_round_trip, right_alone, trusted_alone
from moa_core.bench.link_files import FOLDER, Row
from moa_core.bench.link_files import recorded as read_all
from moa_core.errors import UserError

log = logging.getLogger(__name__)

NONE = (
    "<p>No results over links are recorded here yet. They are made by <code>python -m moa_core "
    "bench --link …</code>, <code>--map</code> and <code>--offline</code>.</p>"
)


READ = (
    "<p>API streaming has no drafter: the server sends each token as it writes it. × in the map: "
    "time a token of the quickest drafter over that of API streaming. More clients share one "
    "server, which answers them in turns.</p>"
)


def recorded(folder: Path = FOLDER) -> dict[str, Row]:
    """The recordings by name; none, with a word in the log, where their files are damaged."""
    try:
        return read_all(folder)
    except UserError as error:
        log.warning("no recordings of links: %s", error)
        return {}


def recorded_charts(found: dict[str, Row]) -> list[go.Figure]:
    """Accuracy after a cut and the map of links, of the recordings that there are."""
    made = {"offline": (right_alone, trusted_alone), "link-map": (latency_map, by_round_trip)}
    return [
        chart(one)
        for kind, charts in made.items()
        for one in found.values()
        if one["kind"] == kind
        for chart in charts
    ]


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
