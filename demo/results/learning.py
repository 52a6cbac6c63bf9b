"""How fast each method learns: τ while it was trained from nothing, by updates and by seconds."""

from __future__ import annotations

import logging
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from demo.common.charts import DASHES, chart, line
from demo.common.methods import colour, label
from moa_core.bench.records import FOLDER, Row, select
from moa_core.loading.untrusted import read_json

log = logging.getLogger(__name__)

FILE = FOLDER / "learning.json"
OVER = {"updates": "updates", "seconds": "seconds of training"}


def learning(path: Path = FILE) -> Row | None:
    """The recording; None where there is none, or, with a word in the log, a damaged one."""
    try:
        found: Row | None = read_json(path) if path.exists() else None
    except (OSError, ValueError) as error:
        log.warning("no recording of training: %s", error)
        return None
    return found


def learning_charts(found: Row) -> list[go.Figure]:
    """A line for each method, over updates and over seconds."""
    rows = found["rows"]
    methods = dict.fromkeys(str(row["method"]) for row in rows)
    made = []
    for key, unit in OVER.items():
        drawn, words = [], []
        for method in methods:
            own = select(rows, method=method)
            drawn.append(
                line(
                    [row[key] for row in own], [row["tau"] for row in own], label(method),
                    colour(method), f"{label(method)}: τ %{{y:.2f}} after %{{x:,.0f}} {unit}",
                    mode="lines+markers", line={"dash": DASHES.get(method, "solid")},
                )
            )  # fmt: skip
            last = own[-1]
            words.append(f"{label(method)} {last['tau']:.2f} after {last[key]:,.0f} {unit}")
        made.append(chart(drawn, f"τ by {unit}", unit, "τ", words, showlegend=True))
    return made


def learning_note(found: Row) -> str:
    return (
        "<p>From scratch, on the same batches; τ is measured on a few prompts, so small "
        f"differences mean nothing. <code>{escape(str(found['command']))}</code></p>"
    )
