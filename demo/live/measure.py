"""The stage's measurement: a method, EAGLE-2 and plain decoding in turns, and what may be said."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from demo.common.charts import growth, middle
from demo.common.figures import Spread, about_of
from demo.common.methods import RIVAL, VANILLA, colour, label
from demo.engine import Engine, Request
from moa_core.decoding.trace import Trace

STEADY = 1.25  # most that a method's fastest run may be faster than its slowest


def requests_for(engine: Engine, request: Request) -> dict[str, Request]:
    """The method, EAGLE-2 (for EAGLE-2 itself: the default) and plain decoding."""
    rival = RIVAL if request.method != RIVAL else engine.default(request.target)
    there = {request.method, *engine.methods(request.target)}
    names = [name for name in (request.method, rival, VANILLA) if name in there]
    return {name: replace(request, method=name) for name in names}


def figures(method: str, traces: Mapping[str, Sequence[Trace]]) -> dict[str, Any]:
    """What the stage draws of a measurement: a lane per method, the method's own first, and the
    ratios of speeds that may be told."""
    ours = speed(traces[method])
    order = sorted(traces, key=lambda name: (name == VANILLA, name != method))
    return {
        "about": about_of(traces[method][0]),
        "runs": len(traces[method]),
        "lanes": [_lane(name, traces[name]) for name in order],
        "over": {
            name: ratio(ours, speed(found)) for name, found in traces.items() if name != method
        },
    }


def _lane(name: str, traces: Sequence[Trace]) -> dict[str, Any]:
    trace = middle(traces)
    points = [list(pair) for pair in zip(*growth(trace), strict=True)]
    called = {"method": name, "label": label(name), "colour": colour(name)}
    return {**called, "tau": trace.tau, "points": points}


def speed(traces: Sequence[Trace]) -> Spread | None:
    """Tokens per second, prefill included, over the runs of a method."""
    rates = [rate for trace in traces if (rate := trace.tokens_per_second)]
    return Spread.of(rates) if rates else None


def ratio(ours: Spread | None, base: Spread | None) -> float | list[float] | None:
    """The ratio of two speeds; with the least and the most that it may be where runs of
    one method differ by more than STEADY; None, so that nothing is claimed, where the ranges
    overlap.
    """
    if not ours or not base or (ours.overlaps(base) and (ours.known or base.known)):
        return None
    if max(one.high / one.low for one in (ours, base)) > STEADY:
        over = ours.over(base)
        return [round(one, 3) for one in (over.middle, over.low, over.high)]
    return round(ours.middle / base.middle, 3)
