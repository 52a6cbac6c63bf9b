"""A comparison as a race: data for replaying each method's middle run.

The value is {"id": changes with each race, "repeats": counted runs of each, "close": whether the
methods are too close to call, "recorded": whether it came with the program, "lanes": [{"lines": of
the run (common/tokens/view.py), "rank": from 0}]}.
"""

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.common.charts import middle
from demo.common.elements import component
from demo.common.tokens.view import feed_of
from demo.compare.rows import Row, rows
from demo.compare.run import Comparison, Plan
from demo.live.recording import REPEATS, recording
from moa_core.text import record_words


def race_view(value: Any = None, **kwargs: Any) -> gr.HTML:
    template = '<section class="race tokens" aria-label="Race"></section>'
    return component(template, "compare/race.js", value=value, **kwargs)


def race(comparison: Comparison, rows: Sequence[Row]) -> dict[str, Any]:
    """The view's value, a lane per row. Without a tokenizer, the traces must have their words."""
    rates = [row.rate for row in rows]
    order = sorted((rate.middle for rate in rates if rate), reverse=True)
    close = any(
        one and other and one is not other and one.overlaps(other) and (one.known or other.known)
        for one in rates
        for other in rates
    )
    lanes = [
        {
            "lines": _lines(comparison, row),
            "rank": order.index(row.rate.middle) if row.rate else len(order),
        }
        for row in rows
    ]
    runs = max(row.runs for row in rows)
    return {"id": token_hex(4), "repeats": runs, "close": close, "lanes": lanes}


def recorded_race() -> dict[str, Any] | None:
    """The first screen's recorded runs, the middle one of each method; None without a recording."""
    kept = recording()
    if kept is None:
        return None
    traces = {one.about["method"]: [one] for one in (kept.trace, kept.rival, kept.plain)}
    comparison = Comparison(plan=Plan(kept.trace.about["prompt"], tuple(traces)), traces=traces)
    made = race(comparison, rows(comparison))
    close = None in kept.measured["over"].values()  # of all its repeats
    return made | {"repeats": REPEATS, "recorded": kept.trace.about["prompt"], "close": close}


def _lines(comparison: Comparison, row: Row) -> list[dict[str, Any]]:
    trace = middle(comparison.traces[row.method])
    if comparison.tokenizer is not None:
        record_words(trace, comparison.tokenizer)
    return feed_of(trace, row.method)
