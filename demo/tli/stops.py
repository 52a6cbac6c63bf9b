"""The sentence under the TLI slider: what the chosen N means, or why it is not available."""

from __future__ import annotations

import html

from demo.common.methods import AUTO, family, label, tli_of
from demo.engine import Engine

STOPS = range(4)


def stops_html(engine: Engine, method: str, target: str = "") -> str:
    refusal = engine.refusal(method, target)
    kind = "refusal" if refusal else "about"
    return f'<p class="stops {kind}">{html.escape(refusal or _about(method))}</p>'


def _about(method: str) -> str:
    if method == AUTO:
        return "Auto N: each cycle uses the N expected to give the most tokens per second."
    if family(method) != "moa":
        return f"TLI is part of MoA; {label(method)} has no TLI."
    tli = tli_of(method)
    if not tli:
        return "N = 0: the drafter reuses none of the target’s layers."
    layers = "layer" if tli == 1 else f"{tli} layers"
    return f"N = {tli}: the drafter also runs the target’s last {layers} on each draft."
