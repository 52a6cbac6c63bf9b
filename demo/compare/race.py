"""A comparison as a race: data for replaying each method's middle run.

The value is {"id": changes with each race, "repeats": counted runs of each, "lanes": [lane],
"recorded": whether it came with the program}; a lane is
    label, colour   of the method
    steps           [seconds so far, line]: after the prefill, then after each cycle, with the
                    lines of demo/common/tokens/view.py
    tau, rate       as the table writes them
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.common.charts import middle, time_of
from demo.common.elements import component
from demo.common.methods import colour
from demo.common.tokens.view import Feed
from demo.compare.rows import Row, digits, rows
from demo.compare.run import Comparison, Plan
from demo.live.recording import REPEATS, recording
from moa_core.decoding.trace import Prefilled, Verified
from moa_core.text import RecordedText, TokenText


def race_view(value: Any = None, **kwargs: Any) -> gr.HTML:
    template = '<section class="race tokens" aria-label="Race"></section>'
    scripts = ("common/static/dom.js", "common/tokens/tokens.js", "compare/race.js")
    return component(template, *scripts, value=value, **kwargs)


def race(comparison: Comparison, rows: Sequence[Row]) -> dict[str, Any]:
    """The view's value, a lane per row. Without a tokenizer, the traces must have their words."""
    lanes = [_lane(comparison, row) for row in rows]
    return {"id": token_hex(4), "repeats": max(row.runs for row in rows), "lanes": lanes}


def recorded_race() -> dict[str, Any] | None:
    """The first screen's recorded runs, the middle one of each method; None without a recording."""
    kept = recording()
    if kept is None:
        return None
    traces = {one.about["method"]: [one] for one in (kept.trace, kept.rival, kept.plain)}
    comparison = Comparison(plan=Plan(kept.trace.about["prompt"], tuple(traces)), traces=traces)
    return race(comparison, rows(comparison)) | {"repeats": REPEATS, "recorded": True}


def _lane(comparison: Comparison, row: Row) -> dict[str, Any]:
    trace, tokenizer = middle(comparison.traces[row.method]), comparison.tokenizer
    feed = Feed("", RecordedText(trace) if tokenizer is None else TokenText(tokenizer))
    steps, seconds = [], 0.0
    for event in trace.events:
        seconds += time_of(event)
        line = feed.line(event)
        if isinstance(event, Prefilled | Verified):
            steps.append([seconds, line])
    return {
        "label": row.label,
        "colour": colour(row.method),
        "tau": digits(row.tau and row.tau.middle, "tau"),
        "rate": digits(row.rate and row.rate.middle, "rate"),
        "steps": steps,
    }
