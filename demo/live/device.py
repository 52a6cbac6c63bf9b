"""Runs with a cut connection: the visitor's browser decodes them, the page keeps their traces.

`device.js` beside this file is the other half, `demo/device` the link between them.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence
from dataclasses import asdict
from time import monotonic
from typing import Any

from demo.device.weights import usable
from demo.engine import Engine, Request
from demo.session import Visit
from moa_core.decoding.trace import Finished, Trace
from moa_core.text import record_words

LOOK = 0.05  # seconds between checks for a trace
LAST = 2.0  # seconds until it must arrive after Stop
LONGEST = 900.0  # seconds for a whole run


def able(engine: Engine, request: Request) -> bool:
    """Whether a browser can draft this: the drafter is small enough, and the first target runs on
    a CPU."""
    if engine.borrows or request.target not in ("", engine.first):
        return False
    target, drafter = engine.target(), engine.drafter(request.method)
    return target.device.type == "cpu" and usable(target, drafter)


def asked(request: Request, prompt: Sequence[int], cut_at: int) -> dict[str, Any]:
    """The run that the page's worker gets. cut_at: new tokens before the link is cut."""
    tree = asdict(request.tree)
    return {
        "name": request.method,
        "prompt": list(prompt),
        "count": request.max_new_tokens,
        "tree": {name: tree[name] for name in ("depth", "breadth", "budget")},
        "sampling": asdict(request.sampling),
        "cutAt": cut_at,
    }


async def wait(visit: Visit) -> None:
    """Until the browser has decoded the newest run; at once where it does not. Holds no thread."""
    shown, last, stopped = visit.shown, monotonic() + LONGEST, False
    mine = shown is not None and shown.device and shown.number == visit.number
    while mine and not shown.trace.events and monotonic() < last:
        if visit.ended(shown.number) and not stopped:
            stopped, last = True, monotonic() + LAST
        await sleep(LOOK)


def keep(engine: Engine, visit: Visit, text: str) -> None:
    """Take over the trace of a run that the browser has decoded, to show, save and compare it.

    text  the trace; the settings are known here. UserError if it is not a trace
    """
    shown = visit.shown
    if shown is None or not shown.device or shown.trace.events:
        return
    shown.trace.events += Trace.from_json(text).events or [Finished("error")]
    record_words(shown.trace, engine.target().tokenizer)
    visit.trace, visit.rival = shown.trace, None
