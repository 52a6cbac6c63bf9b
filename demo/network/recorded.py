"""Recorded link measurements: tables, charts, and how they were made."""

from html import escape

import plotly.graph_objects as go

from demo.common.by_method import NAMES, lines
from demo.common.figures import many
from demo.common.methods import RIVAL, family, label
from moa_core.bench.link import DIRECT
from moa_core.bench.records import ALL, Row, select
from moa_core.link.emulator import link

CUT = "% of the answer verified before the cut"


def records_html(found: dict[str, Row]) -> str:
    items = [
        f"<li><b>{escape(name)}</b>: {escape(str(one['kind']))}, {escape(str(one.get('date')))}; "
        f"<code>{escape(str(one.get('command')))}</code></li>"
        for name, one in found.items()
    ]
    tables = [own_words(one) for one in found.values() if one["kind"] == "offline"]
    return (
        f"{''.join(tables)}<details><summary>How these were measured: commands and dates"
        f"</summary><ul>{''.join(items)}</ul></details>"
    )


def own_words(one: Row) -> str:
    """How much of the text after a cut for good is the target's own: a row per method, a column for
    the first, the middle and the last cut."""
    rows = [row for row in select(one["rows"], kind=ALL) if row.get("same") is not None]
    cuts = sorted({row["cut"] for row in rows})
    cuts = sorted({cuts[0], cuts[len(cuts) // 2], cuts[-1]})
    heads = "".join(f"<th>{100 * cut:.0f} %</th>" for cut in cuts)
    body = ""
    for method in dict.fromkeys(row["method"] for row in rows):
        same = [row["same"] for cut in cuts for row in select(rows, method=method, cut=cut)]
        cells = "".join(f"<td>{100 * share:.1f} %</td>" for share in same)
        name = escape(NAMES.get(method) or label(method))
        body += f"<tr><th scope='row'>{name}</th>{cells}</tr>"
    about = f"{one['target']['name']}, {many(rows[0]['items'], 'prompt')}"
    return (
        "<h2>The target’s own words if the connection never comes back</h2><p>Share of the "
        "drafter’s own text that is the target’s, too, before the first difference. Columns: how "
        f"much of the answer was there at the cut ({escape(about)}):</p>"
        f"<table class='beside'><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody>"
        "</table><p>In the chart below, text that only repeats itself scores well, too.</p>"
    )


def right_answers(found: dict[str, Row]) -> str:
    """How many of the target's right answers are right without it, cut at the start."""
    told = ""
    for one in found.values():
        if one["kind"] == "answers":
            rows = select(one["rows"], kind=ALL, cut=0.0)
            best = sorted(rows, key=lambda row: -row["right"])
            shares = [f"{escape(label(row['method']))} {100 * row['right']:.0f} %"
                      for row in best if family(row["method"]) in ("moa", RIVAL)]  # fmt: skip
            told += (
                "<p>A few short answers are right without the target. Of "
                f"{rows[0]['asked']} questions that it answers right, drafters that are cut off "
                f"after the first token still answer right: {', '.join(shares)}.</p>"
            )
    return told


def recorded_charts(found: dict[str, Row]) -> list[go.Figure]:
    """Plausibility after a cut, and time per token over links, as far as recorded."""
    title, unit = "How plausible the target finds offline text", "log-probability per token"
    made = [
        lines(select(one["rows"], kind=ALL), "cut", "log_prob", title, CUT, unit, 100)
        for one in found.values()
        if one["kind"] == "offline"
    ]
    for one in found.values():
        if one["kind"] == "link":
            trips = {name: link(name).rtt for name in one["links"]} | {DIRECT: 0}
            rows = [
                {**row, "link": trips[row["link"]]} for row in one["rows"] if row["link"] in trips
            ]
            title, axis = "Time per token over a connection", "ms per token"
            drawn = lines(rows, "link", "ms_per_token", title, "round trip, ms", axis)
            made.append(drawn.update_yaxes(rangemode="tozero"))
    return made
