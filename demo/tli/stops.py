"""The stops under the TLI slider: which N has a drafter, and a word about the chosen one."""

from __future__ import annotations

import html

from demo.common.methods import AUTO, family, label, tli_of
from demo.engine import Engine

STOPS = range(4)


def stops_html(engine: Engine, method: str, target: str = "") -> str:
    """The row of stops, those without a trained drafter greyed, above one sentence."""
    trained, in_use = engine.stops(target), family(method) == "moa"
    items = "".join(
        _stop(stop, stop in trained, in_use and stop == tli_of(method)) for stop in STOPS
    )
    refusal = engine.refusal(method, target)
    kind = "refusal" if refusal else "about"
    off = "" if in_use else " off"
    sentence = html.escape(refusal or _about(method))
    return f'<div class="stops{off}"><ol>{items}</ol><p class="{kind}">{sentence}</p></div>'


def _stop(stop: int, trained: bool, chosen: bool) -> str:
    state, words = ("trained", "trained") if trained else ("untrained", "no drafter")
    here = " chosen" if chosen else ""
    return f'<li class="{state}{here}"><b>N = {stop}</b><small>{words}</small></li>'


def _about(method: str) -> str:
    if method == AUTO:
        return "Auto N: each cycle uses the N expected to give the most tokens per second."
    if family(method) != "moa":
        return f"TLI is part of MoA; {label(method)} has no TLI."
    tli = tli_of(method)
    if not tli:
        return "The drafter reuses none of the target’s layers."
    layers = "layer" if tli == 1 else f"{tli} layers"
    return f"The drafter also runs the target’s last {layers} on each draft."
