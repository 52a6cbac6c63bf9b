"""Recorded link measurements: charts, and how they were made."""

from __future__ import annotations

from html import escape

import plotly.graph_objects as go

from demo.common.by_method import lines
from moa_core.bench.records import ALL, Row, select

READ = "<p>API streaming has no drafter: the server sends each token as it writes it.</p>"
CUT = "% of the answer verified before the cut"
OFFLINE = {  # of a row over all kinds: factor, title, unit
    "same": (100, "The target’s own words when the link never comes back", "% of offline tokens"),
    "log_prob": (1, "How plausible the target finds offline text", "log-probability per token"),
}


def records_html(found: dict[str, Row]) -> str:
    items = [
        f"<li><b>{escape(name)}</b>: {escape(str(one['kind']))}, {escape(str(one.get('date')))}; "
        f"<code>{escape(str(one.get('command')))}</code></li>"
        for name, one in found.items()
    ]
    return (
        f"{READ}<details><summary>How these were measured: commands and dates</summary>"
        f"<ul>{''.join(items)}</ul></details>"
    )


def recorded_charts(found: dict[str, Row]) -> list[go.Figure]:
    """Quality after a cut, and time per token over links, as far as recorded."""
    made = [
        lines(select(one["rows"], kind=ALL), "cut", key, title, CUT, unit, (100, factor))
        for one in found.values()
        if one["kind"] == "offline"
        for key, (factor, title, unit) in OFFLINE.items()
    ]
    for one in found.values():
        if one["kind"] == "link":
            rows = [row for row in one["rows"] if row["link"] in one["links"]]
            title, axis = "Time per token over a link", "ms per token"
            drawn = lines(rows, "link", "ms_per_token", title, "link", axis)
            made.append(drawn.update_yaxes(rangemode="tozero"))
    return made
