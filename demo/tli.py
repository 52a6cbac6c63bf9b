"""The stops under the TLI slider: which N has a drafter, and a word about the chosen one."""

from __future__ import annotations

import html

from demo.session import METHODS, Engine

STOPS = range(4)


def stops_html(engine: Engine, method: str, tli: int) -> str:
    """The row of stops, those without a trained drafter greyed, above one sentence."""
    items = "".join(_stop(stop, stop in engine.stops, method == "moa", tli) for stop in STOPS)
    refusal = engine.refusal(method, tli)
    kind = "refusal" if refusal else "about"
    sentence = html.escape(refusal or _about(method, tli))
    off = "" if method == "moa" else " off"
    return f'<div class="stops{off}"><ol>{items}</ol><p class="{kind}">{sentence}</p></div>'


def _stop(stop: int, trained: bool, in_use: bool, chosen: int) -> str:
    state, words = ("trained", "trained") if trained else ("untrained", "no drafter")
    here = " chosen" if in_use and stop == chosen else ""
    return f'<li class="{state}{here}"><b>N = {stop}</b><small>{words}</small></li>'


def _about(method: str, tli: int) -> str:
    if method != "moa":
        return f"TLI is a part of MoA; {METHODS[method]} does without."
    if not tli:
        return "The drafter reuses none of the target’s layers."
    layers = "layer" if tli == 1 else f"{tli} layers"
    return f"The drafter also runs the target’s last {layers} over what it drafts."
