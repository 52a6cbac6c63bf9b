"""A comparison as a race: data for replaying each method's middle run.

The value is {"id": changes with each race, "repeats": counted runs of each, "recorded": the prompt
of one that came with the program, "measuring": whether runs are still to come, "lanes": [{"lines":
of the run (common/tokens/view.py), "rank": its place, from 0; None after single runs, which cannot
tell; "over", "tau": speed over plain decoding's, and tokens per call, in words}]}.
"""

from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from demo.common.figures import Spread, places
from demo.common.methods import VANILLA
from demo.common.tokens.view import feed_of
from demo.compare.rows import Row, rows
from demo.compare.run import Comparison
from demo.engine import Request
from demo.live.recording import REPEATS, recording


def race(rows: Sequence[Row]) -> dict[str, Any]:
    """The view's value, a lane per row, whose trace has its words."""
    runs = max(row.runs for row in rows)
    rates = {row.method: row.rate for row in rows if row.rate}
    found, plain = places(rates) if runs > 1 else {}, rates.get(VANILLA)
    lanes = [
        {"lines": feed_of(row.trace, row.method), "rank": found.get(row.method),
         "over": f"{row.rate.over(plain).middle:.2f} × plain" if row.rate and plain else "",
         "tau": f"{row.tau.middle:.2f} tokens per call" if row.tau else ""}
        for row in rows
    ]  # fmt: skip
    return {"id": token_hex(4), "repeats": runs, "lanes": lanes}


def recorded_race() -> dict[str, Any] | None:
    found = recorded_rows()
    return race(found) | {"recorded": found[0].trace.about["prompt"]} if found else None


def recorded_rows() -> list[Row]:
    """The first screen's recorded runs, the middle one of each method; [] without a recording."""
    if (kept := recording()) is None:
        return []
    traces = {one.about["method"]: [one] for one in (kept.trace, kept.rival, kept.plain)}
    asked = Request(kept.trace.about["prompt"])
    ours, *others = rows(Comparison(asked=asked, methods=tuple(traces), traces=traces))
    return [replace(row, runs=REPEATS, rate=_told(row, ours, kept.measured["over"]))
            for row in (ours, *others)]  # fmt: skip


def _told(row: Row, ours: Row, over: dict[str, Any]) -> Spread | None:
    """The speed of the middle run; it overlaps ours if all repeats did, where `over` has None."""
    if not row.rate or not ours.rate or over.get(row.method, 1) is not None:
        return row.rate
    ends = row.rate.middle, ours.rate.middle
    return Spread(row.rate.middle, min(ends), max(ends))
