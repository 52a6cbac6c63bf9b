"""Runs that follow a visitor's run: plain decoding and the rival, for headline and charts.

They have low priority: they start when nobody waits, and end as soon as somebody does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from time import sleep
from typing import Any

import gradio as gr
import plotly.graph_objects as go

from demo.common.charts import Lane
from demo.common.figures import about_of
from demo.common.measure import Measured, compare_texts, measure, turns
from demo.common.methods import RIVAL, VANILLA, label
from demo.engine import Engine, Request
from demo.live.charts import CHARTS, speed
from demo.session import Visit
from moa_core.decoding.trace import Trace
from moa_core.decoding.verify import Exactness
from moa_core.text import record_words, tokenizer_of

REPEATS = 3
LOOK = 0.1  # seconds between checks for other runs
WHOLE = ("eos", "length", "context")  # endings of complete runs, which can be compared


@dataclass
class Known:
    """What is known about a run besides its trace; it grows step by step.

    plain  the content of the view's `plain` line
    lanes  of the charts, the run's own method first
    timed  whether their times may be shown
    """

    plain: dict[str, Any]
    about: str
    lanes: list[Lane] = field(default_factory=list)
    timed: bool = False

    @property
    def figures(self) -> dict[str, go.Figure]:
        """The charts by name; unknown figures are not drawn."""
        drawn = CHARTS if self.timed else {"acceptance": CHARTS["acceptance"]}
        return {name: draw(self.lanes, self.about) for name, draw in drawn.items() if self.lanes}

    @property
    def measuring(self) -> Known:
        """The same, while its speed is still being measured."""
        return replace(self, plain={**self.plain, "measuring": True})

    def line(self, figures: dict[str, go.Figure]) -> dict[str, Any]:
        """The view's `plain` line: the page shows only these charts."""
        return {**self.plain, "charts": list(figures)}


def follow(visit: Visit, engine: Engine) -> Iterator[tuple[Any, ...]]:
    """Complete the stage: yields (view, acceptance chart, latency chart)."""
    shown, number = visit.shown, visit.number
    known = shown is not None and shown.request is not None and not engine.borrows
    # Another number: the newest run was refused.
    if not known or shown.trace.reason not in WHOLE or shown.number != number:
        yield (gr.skip(),) * (1 + len(CHARTS))  # without any value, gradio would empty the charts
        return

    def stop() -> bool:
        return visit.ended(number) or engine.worker.wanted

    for known in _known(visit, number, engine, stop):
        if not visit.ended(number):
            drawn = known.figures
            yield (
                shown.feed.plain(known.line(drawn)),
                *(drawn.get(name, gr.skip()) for name in CHARTS),
            )


def _known(visit: Visit, number: int, engine: Engine, stop: Any) -> Iterator[Known]:
    request, trace, cut = visit.shown.request, visit.shown.trace, visit.shown.cut
    requests = requests_for(engine, request, cut)
    for method in requests:
        engine.drafter(method, request.target)
    while engine.busy or engine.worker.wanted:
        if visit.ended(number):
            return
        sleep(LOOK)
    repeats = 1 if cut else REPEATS
    before, measured, known = engine.worker.begun, Measured(), None
    unknown = Known(_exact(None), about_of(trace))
    timed = request.method != VANILLA and not cut
    yield unknown.measuring if timed else unknown
    with giving_way(engine), closing(measure(engine, requests, repeats, measured, stop)) as steps:  # type: ignore[type-var]
        for _ in steps:
            found = {name: traces for name, traces in measured.traces.items() if traces}
            if known is None and VANILLA in found and {*found, request.method} >= set(requests):
                known = compared(engine, request, trace, found)
                yield known.measuring if timed else known
    others = [name for name in measured.traces if name not in (request.method, VANILLA)]
    visit.rival = next((one for name in others for one in measured.traces[name]), None)
    if visit.rival:
        record_words(visit.rival, tokenizer_of(engine.target(request.target)))
    if stop() or not all(measured.traces.values()):
        yield known or unknown
        return
    own = len(turns(list(requests), repeats))
    alone = engine.worker.begun - before <= own
    known = compared(engine, request, trace, measured.traces, alone and not cut)
    if cut or (timed and not alone):
        why = "the connection was cut" if cut else "another run shared the machine"
        known.plain["untimed"] = why
    yield known


@contextmanager
def giving_way(engine: Engine) -> Iterator[None]:
    """Run with low priority, so that others are not asked to wait."""
    engine.worker.gives_way = True
    try:
        yield
    finally:
        engine.worker.gives_way = False


def requests_for(engine: Engine, request: Request, cut: bool = False) -> dict[str, Request]:
    """The runs to compare with: plain decoding, the rival, and the run's own method again. After a
    cut, only the text can be compared."""
    rival = RIVAL if request.method != RIVAL else engine.default(request.target)
    names = [VANILLA] if cut else dict.fromkeys((VANILLA, rival, request.method))
    there = engine.methods(request.target)
    return {name: replace(request, method=name) for name in names if name in there}


def compared(
    engine: Engine,
    request: Request,
    trace: Trace,
    traces: dict[str, list[Trace]],
    timed: bool = False,
) -> Known:
    """The comparison of a run with the repeats of its own method, the rival and plain decoding."""
    base = traces[VANILLA]
    verdict = None
    if request.sampling.greedy:
        verdict = compare_texts(engine, request, trace.output_ids, base[0].output_ids)
    ranked = sorted({request.method: [trace], **traces}.items(), key=lambda one: one[0] == VANILLA)
    drafted = len(traces) > 1 and trace.tau is not None
    lanes = [Lane.of(method, found) for method, found in ranked] if drafted else []
    # Automatic trees differ between runs: show the τ of the visitor's own run.
    lanes = [
        replace(lane, tau=trace.tau) if lane.method == request.method else lane for lane in lanes
    ]
    rival = [lane for lane in lanes if lane.method not in (request.method, VANILLA)]
    said = {**_exact(verdict), "calls": None, "rival": None, "rival_tau": None}
    if request.method != VANILLA:
        said["calls"] = base[0].target_calls
    if rival:
        said |= {"rival": label(rival[0].method), "rival_tau": rival[0].tau}
    if timed and request.method != VANILLA:
        others = [("plain", base), *(("rival", traces[lane.method]) for lane in rival)]
        said |= {f"over_{name}": ratio(traces[request.method], runs) for name, runs in others}
    return Known(said, about_of(trace), lanes, timed)


def _exact(verdict: Exactness | None) -> dict[str, Any]:
    """Whether the text is plain decoding's; unknown for sampled texts."""
    if verdict is None:
        return {"same": None, "parted": None}
    return {"same": verdict.at is None, "parted": None if verdict.at is None else verdict.at + 1}


def ratio(ours: Sequence[Trace], base: Sequence[Trace]) -> dict[str, Any] | None:
    """The ratio of speeds, and whether it is too close to call."""
    fast, slow = speed(ours), speed(base)
    if not fast or not slow:
        return None
    times = fast.over(slow)
    close = fast.overlaps(slow) and times.known
    return {"times": round(times.middle, 3), "close": close}
