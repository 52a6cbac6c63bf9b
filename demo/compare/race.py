"""A comparison as a race: data for replaying each method's middle run.

The value, sent as JSON, is {"id": changes with each race, "repeats": counted runs of each,
"prompt": of all runs, "recorded": whether it came with the program, "busy": whether other work
disturbed it, "lanes": [{"label", "colour", "seconds", "range": seconds of the fastest and the
slowest run, None after single runs; "over", "tau", "call": speed over plain decoding's, tokens per
call, and what it takes, in words; "lines": of the run (common/tokens/view.py), "rank": its place,
from 0; None after runs that cannot tell}]}.

While runs are still to come, it has "measuring", "over" tells how many were made, and no lane has a
rank; a method that has not run yet has no seconds. Once each has run twice, no lane has lines,
which are much to send: the texts stay.
"""

from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from demo.common.figures import Spread, many, places
from demo.common.methods import VANILLA, colour, label
from demo.common.tokens.view import feed_of
from demo.compare.rows import Row, rows, unsteady
from demo.compare.run import Comparison
from demo.engine import Request
from demo.live.recording import REPEATS, recording


def race(rows: Sequence[Row], recorded: bool = False) -> dict[str, Any]:
    """The view's value, a lane per row, whose trace has its words. recorded: on a quiet machine."""
    runs = max(row.runs for row in rows)
    rates = {row.method: row.rate for row in rows if row.rate}
    busy = not recorded and bool(unsteady(rows))
    found = places(rates) if runs > 1 and not busy else {}
    lanes = [
        {**lane, "rank": found.get(row.method)}
        for row, lane in zip(rows, _lanes(rows, lines=True, busy=busy), strict=True)
    ]
    prompt = rows[0].trace.about.get("prompt", "")
    return {"id": token_hex(4), "repeats": runs, "prompt": prompt, "busy": busy, "lanes": lanes}


def so_far(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, Any]:
    """The view's value while runs of these methods are still to come. Of two runs, a bar is the
    mean: the middle one of them would be the slower."""
    lanes = _lanes(rows, lines=min(row.runs for row in rows) == 1)
    for row, lane in zip(rows, lanes, strict=True):
        if row.runs == 2 and lane["range"]:
            lane["seconds"] = sum(lane["range"]) / 2
    known = {
        row.method: lane | {"over": many(row.runs, "run")}
        for row, lane in zip(rows, lanes, strict=True)
    }
    empty = {"seconds": None, "range": None, "over": "", "tau": "", "call": ""}
    every = [known.get(name) or {"label": label(name), "colour": colour(name), **empty}
             for name in methods]  # fmt: skip
    return {"id": token_hex(4), "measuring": True, "lanes": every}


def _lanes(rows: Sequence[Row], lines: bool, busy: bool = False) -> list[dict[str, Any]]:
    plain = next((row.rate for row in rows if row.method == VANILLA), None)
    return [
        {"label": row.label, "colour": colour(row.method),
         "seconds": sum(row.trace.seconds.values()), "range": _range(row),
         "over": _over(row.rate, plain, busy) if row.rate and plain else "",
         "tau": f"{row.tau.middle:.2f} tokens per call" if row.tau else "",
         "call": f"{sum(row.spent.values()):.0f} ms a call" if row.tau and not busy else "",
         **({"lines": feed_of(row.trace, row.method)} if lines else {})}
        for row in rows
    ]  # fmt: skip


def _over(rate: Spread, plain: Spread, busy: bool) -> str:
    gain = rate.over(plain).middle
    return f"≈ {gain:.1f} × plain" if busy and rate is not plain else f"{gain:.2f} × plain"


def _range(row: Row) -> tuple[float, float] | None:
    if not row.rate or not row.rate.known:
        return None
    tokens = row.rate.middle * sum(row.trace.seconds.values())
    return tokens / row.rate.high, tokens / row.rate.low


def recorded_race() -> dict[str, Any] | None:
    found = recorded_rows()
    return race(found, recorded=True) | {"recorded": True} if found else None


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
