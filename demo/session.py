"""One visitor: whose run is the newest, what it left behind, and how runs begin and end."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr
from gradio.events import Dependency

from demo.common.status import SORRY, STOPPING, say
from demo.common.theme import script
from demo.engine import Engine
from demo.zero import Cost, lend
from moa_core.decoding.trace import Trace
from moa_core.errors import UserError

log = logging.getLogger(__name__)

LINGER = 60.0  # seconds that a session is held after its page was closed, or lost its network
RETELL = 2.0  # seconds between two looks at how many are before a run that waits
PRIVATE = {"api_visibility": "private", "show_progress": "hidden"}
Work = Callable[..., Iterator[tuple[Any, ...]]]


class Visit:
    """One visitor's runs: a new one ends the last, and Stop ends the newest."""

    def __init__(self) -> None:
        self.number = 0
        self.begun = 0  # the newest run that has had its turn
        self.trace: Trace | None = None  # the newest one shown, with its words
        self.shown: Any = None  # what the Live tab shows, and how to go on with it
        self.far: Any = None  # what the Network tab shows, and how to run it again
        self.link: Any = None  # of the run that goes on, where it goes over one
        self.said: dict[int, Any] = {}  # by status line, what the last run there said last
        self._stopped = 0

    def begin(self) -> None:
        """A new run; its number is the newest."""
        self.number += 1

    def stop(self) -> None:
        """End the newest run, even if it still waits for its turn."""
        self._stopped = self.number

    @property
    def waits(self) -> bool:
        """Whether the newest run has not had its turn, and is still wanted."""
        return self.begun < self.number and not self.ended(self.number)

    def ended(self, number: int) -> bool:
        """Whether the run of this number must end."""
        return number != self.number or number <= self._stopped


class Visits:
    """The visitors who are here: whoever leaves ends their runs, even one that only waits."""

    def __init__(self) -> None:
        self._here: dict[str, Visit] = {}

    def __contains__(self, who: str) -> bool:
        return who in self._here

    def arrive(self, request: gr.Request) -> Visit:
        """A page was opened."""
        visit = self._here[request.session_hash or ""] = Visit()
        return visit

    def leave(self, who: str) -> None:
        """It was closed. who: its session's hash."""
        visit = self._here.pop(who, None)
        if visit is not None:
            visit.stop()


def connect(
    engine: Engine,
    visit: gr.State,
    run: gr.Button,
    stop: gr.Button,
    work: Work,
    inputs: list[Any],
    outputs: list[Any],
    hides: Sequence[Any] = (),
    cost: Cost | None = None,
) -> Dependency:
    """Let a button run `work`, in turn with all other runs, and another one stop it.

    work     work(visit, should_stop, *inputs) yields values for `outputs`; UserErrors become
             sentences
    outputs  components, a status line first
    hides    components that do not fit the new run, hidden when it begins
    cost     cost(visit, *inputs) is how many tokens `work` decodes at most, by which it borrows a
             GPU where GPUs are lent; None: it always runs in this process

    An output that is only now and then given a value belongs into a `.then`: gradio makes a
    component anew for every skip of a stream, which takes decoding's time. And a stream ends with
    all of what it shows, not with a skip: gradio sends what changed, its page handles each message
    in a timer of its own, so one may overtake another, and only the last tells everything.
    """
    if cost is not None:
        work = lend(work, engine, cost)

    # Functions of their own, not partials: in those gradio sees no annotations.
    def begin(visitor: Visit | None, request: gr.Request) -> tuple[Any, ...]:
        begun = _begin(engine, visitor, engine.line.join(request.session_hash or ""))
        return *begun, *(gr.update(visible=False) for _ in hides)

    def turn(visitor: Visit, request: gr.Request, *values: Any) -> Iterator[tuple[Any, ...]]:
        visitor.said.pop(outputs[0]._id, None)
        try:
            for given in guarded(work, len(outputs), visitor, *values):
                yield _keep(visitor, outputs[0]._id, given[0]), *given[1:]
        finally:
            engine.line.leave(request.session_hash or "")

    clock = _clock(engine, visit, outputs[0])
    begun = run.click(
        begin, visit, [visit, run, stop, outputs[0], clock, *hides], queue=False, **PRIVATE
    )
    ran = begun.then(
        turn,
        [visit, *inputs],
        outputs,
        concurrency_id="model",
        concurrency_limit=1,
        **PRIVATE,
    )
    _connect_stop(engine, visit, stop, outputs[0])

    def end(visitor: Visit) -> tuple[Any, ...]:
        # Once more: on a busy page what Stop says may come after what the run said.
        return *_end(), visitor.said.get(outputs[0]._id, gr.skip())

    return ran.then(end, visit, [run, stop, outputs[0]], queue=False, **PRIVATE)


def _clock(engine: Engine, visit: gr.State, status: gr.HTML) -> gr.Timer:
    """What tells the place of a run anew while it waits; off until it is made active."""

    def retell(visitor: Visit | None, request: gr.Request) -> tuple[Any, Any]:
        return _retell(engine, visitor, engine.line.before(request.session_hash or ""))

    clock = gr.Timer(RETELL, active=False)
    clock.tick(retell, visit, [status, clock], queue=False, **PRIVATE)
    return clock


def _connect_stop(engine: Engine, visit: gr.State, stop: gr.Button, status: gr.HTML) -> None:
    """Let a button stop the newest run, and say so at once."""

    def end(visitor: Visit, request: gr.Request) -> dict[str, Any]:
        if visitor.waits:  # those behind need not count it any more
            engine.line.leave(request.session_hash or "")
        return _stop(visitor)

    # In the browser: the server's word might come after the run's own last one.
    stop.click(None, None, status, js=f"() => ({json.dumps(say(STOPPING, 'wait'))})", **PRIVATE)
    stop.click(end, visit, stop, queue=False, **PRIVATE)


def show_results(ended: Dependency, where: str) -> None:
    """Bring results into sight when their run has ended. where: the elem_id they have."""
    js = f"() => {{ {script('common/static/show_results.js')}('{where}'); }}"
    ended.then(None, None, None, js=js, **PRIVATE)


def guarded(work: Work, count: int, visit: Visit, *values: Any) -> Iterator[tuple[Any, ...]]:
    """Run `work` for the newest run of a visit; whatever goes wrong becomes a sentence."""
    number = visit.begun = visit.number
    rest: tuple[Any, ...] = (gr.skip(),) * (count - 1)
    if visit.ended(number):
        yield say("Stopped before it began.", "done"), *rest
        return
    try:
        for given in work(visit, lambda: visit.ended(number), *values):
            rest = given[1:]  # said once more beside an error: see `connect`
            yield given
    except UserError as error:
        yield say(str(error), "error"), *rest
    except gr.Error as error:  # of whoever lends GPUs: none is free, or no time is left
        yield say(str(error.message), "error"), *rest
    except Exception:
        log.exception("a run failed")
        yield say(SORRY, "error"), *rest


def _begin(engine: Engine, visit: Visit | None, before: int) -> tuple[Any, ...]:
    """Before the run has its turn: the buttons change, and waiting is explained."""
    visit = visit or Visit()
    visit.begin()
    status = _wait(engine, before)
    waits = gr.Timer(active=bool(status["text"]))
    buttons = gr.update(interactive=False), gr.update(interactive=True)
    return visit, *buttons, _dated(status), waits


def _keep(visit: Visit, line: int, said: dict[str, Any]) -> dict[str, Any]:
    """What a status line is told, remembered, and dated when it changes: streams repeat most."""
    if "text" not in said:
        return said
    last = visit.said.get(line)
    if last is None or {**last, **said} != last:
        last = visit.said[line] = _dated(said)
    return last


def _dated(said: dict[str, Any]) -> dict[str, Any]:
    """With when it was said: what was said before, but comes later, is not shown any more."""
    return {**said, "at": time.time()}


def _wait(engine: Engine, before: int) -> dict[str, str]:
    """What a run waits for, in words; none where it need not wait."""
    if before > 1:
        return say(f"{before} runs are before yours; it begins when they have ended.", "wait")
    if before or engine.busy:
        return say("Another run is going on here; yours begins when it ends.", "wait")
    if not engine.ready():
        words = "The models are still loading; your run begins when they are there."
        return say(words, "wait")
    return say("")


def _retell(engine: Engine, visit: Visit | None, before: int) -> tuple[Any, Any]:
    """While the newest run has not had its turn, its place anew: (status, clock)."""
    if visit is None or visit.begun == visit.number:
        return gr.skip(), gr.Timer(active=False)
    if visit.ended(visit.number):
        words = f"{STOPPING} Your run will not begin; another can when its turn has come."
        return _dated(say(words, "wait")), gr.Timer(active=False)
    return _dated(_wait(engine, before)), gr.skip()


def _stop(visit: Visit) -> dict[str, Any]:
    """Ask the run to end after its cycle, or not to begin; what was done stays on the page."""
    visit.stop()
    return gr.update(interactive=False)


def _end() -> tuple[Any, ...]:
    return gr.update(interactive=True), gr.update(interactive=False)
