"""A comparison as a race: data for replaying each method's middle run.

The value is {"id": changes with each race, "repeats": counted runs of each, "recorded": the prompt
of one that came with the program, "lanes": [{"lines": of the run (common/tokens/view.py), "rank":
how many were surely faster; None after single runs, which cannot tell}]}.
"""

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from demo.common.figures import Spread
from demo.common.tokens.view import feed_of
from demo.compare.rows import Row, rows
from demo.compare.run import Comparison
from demo.engine import Request
from demo.live.recording import REPEATS, recording


def race(rows: Sequence[Row]) -> dict[str, Any]:
    """The view's value, a lane per row, whose trace has its words."""
    rates, runs = [row.rate for row in rows if row.rate], max(row.runs for row in rows)

    def rank(mine: Spread | None) -> int:
        if mine is None:
            return len(rates)
        return sum(one.middle > mine.middle and not one.close_to(mine) for one in rates)

    lanes = [
        {"lines": feed_of(row.trace, row.method), "rank": None if runs == 1 else rank(row.rate)}
        for row in rows
    ]
    return {"id": token_hex(4), "repeats": runs, "lanes": lanes}


def recorded_race() -> dict[str, Any] | None:
    """The first screen's recorded runs, the middle one of each method; None without a recording."""
    kept = recording()
    if kept is None:
        return None
    traces = {one.about["method"]: [one] for one in (kept.trace, kept.rival, kept.plain)}
    asked = Request(kept.trace.about["prompt"])
    comparison = Comparison(asked=asked, methods=tuple(traces), traces=traces)
    made = race(rows(comparison))
    over = kept.measured["over"]  # of all its repeats; None: too close to call
    level = {kept.trace.about["method"], *(name for name in over if over[name] is None)}
    order = sorted(traces, key=lambda name: sum(traces[name][0].seconds.values()))
    best = min(order.index(name) for name in level)
    for lane in made["lanes"]:
        name = lane["lines"][0]["method"]
        lane["rank"] = best if name in level else order.index(name)
    return made | {"repeats": REPEATS, "recorded": kept.trace.about["prompt"]}
