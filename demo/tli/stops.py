"""The sentence under the TLI slider: what the chosen N means, or why it is not available."""

import html
from typing import Any

from demo.common.methods import LOOKUP, family, label, tli_of
from demo.engine import Engine

STOPS = range(4)


def stops_html(engine: Engine, method: str, target: str = "") -> str:
    refusal = engine.refusal(method, target)
    kind = "refusal" if refusal else "about"
    only = " No other N is trained for this target." if engine.stops(target) == [0] else ""
    return f'<p class="stops {kind}">{html.escape(refusal or _about(method, only))}</p>'


def slider_bounds(engine: Engine, method: str, target: str = "") -> dict[str, Any]:
    """The largest N of the slider, and whether there is a choice."""
    stops = engine.stops(target)
    more = family(method) == "moa" and len(stops) > 1
    return {"maximum": max([1, *stops]), "interactive": more}


def _about(method: str, only: str) -> str:
    if family(method.removesuffix(LOOKUP)) != "moa":
        return f"TLI is part of MoA; {label(method)} has no TLI."
    if method.endswith(LOOKUP):
        return f"N-gram lookup goes with N = {tli_of(method.removesuffix(LOOKUP))} here."
    tli = tli_of(method)
    if not tli:
        return f"N = 0: the drafter reuses none of the target’s layers.{only}"
    layers = "layer" if tli == 1 else f"{tli} layers"
    return f"N = {tli}: the drafter also runs the target’s last {layers} on each guess."
