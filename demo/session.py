"""A visitor's runs: how they start and end, and what they leave behind."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import gradio as gr
from gradio.events import Dependency

from demo.common.elements import SORRY, STOPPING, call, say
from demo.engine import Engine
from moa_core.errors import UserError

log = logging.getLogger(__name__)

PRIVATE = {"api_visibility": "private", "show_progress": "hidden"}
Work = Callable[..., Iterator[tuple[Any, ...]]]


@dataclass(frozen=True)
class Shared:
    """What all tabs share: models, the page, and components above the tabs.

    visit   a `Visit`, one per visitor; None until the page has loaded
    target  name of the target in use
    tabs    names of the page's tabs, in their order
    header  of the page; its event `follow` reports a tab that a link opened
    """

    engine: Engine
    page: gr.Blocks
    visit: gr.State
    target: gr.Dropdown
    tabs: tuple[str, ...]
    header: gr.HTML


@dataclass
class Visit:
    """A visitor's runs. A new run ends the previous one; Stop ends the newest.

    ended  set when the newest run must end, even if it still waits for its turn
    said   the last words of each status line
    """

    ended: Event = field(default_factory=Event)
    said: dict[int, Any] = field(default_factory=dict)

    def begin(self) -> None:
        self.ended.set()
        self.ended = Event()


def connect(
    shared: Shared,
    run: gr.Button,
    stop: gr.Button,
    work: Work,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
) -> Dependency:
    """Connect a button that runs `work`, in turn with all other runs, and one that stops it.

    work     work(should_stop, *inputs) yields values for `outputs`; UserErrors become
             sentences
    outputs  components, a status line first

    Put an output that rarely changes into a `.then`: gradio rebuilds a component for every skip of
    a stream, which slows decoding. End a stream with the whole value, not with a skip: gradio sends
    differences, and the browser may handle two messages in the wrong order, so only the last one is
    sure to be complete.
    """
    engine, status = shared.engine, outputs[0]

    # Functions, not partials: gradio sees no annotations in partials.
    def begin(visit: Visit | None, request: gr.Request) -> tuple[Any, ...]:
        said = say(waiting(engine) or STARTING, "wait")
        engine.worker.waiting.add(request.session_hash)
        visit = visit or Visit()
        visit.begin()
        buttons = gr.update(interactive=False), gr.update(interactive=True)
        return visit, *buttons, said

    def turn(visit: Visit, request: gr.Request, *values: Any) -> Iterator[tuple[Any, ...]]:
        visit.said.pop(status._id, None)
        try:
            for given in guarded(work, len(outputs), visit, *values):
                visit.said[status._id] = given[0]
                yield given
        finally:
            engine.worker.waiting.discard(request.session_hash)

    def end(visit: Visit, request: gr.Request) -> tuple[Any, ...]:
        engine.worker.waiting.discard(request.session_hash)  # a full queue gave it no turn
        # Again: on a busy page, Stop's status may arrive after the run's.
        buttons = gr.update(interactive=True), gr.update(interactive=False)
        return *buttons, visit.said.get(status._id, gr.skip())

    def halt(visit: Visit) -> dict[str, Any]:
        visit.ended.set()
        return gr.update(interactive=False)

    def event(when: Any, what: Any, given: Any, shown: Any, **more: Any) -> Dependency:
        return when(what, given, shown, **{"queue": False, **PRIVATE, **more})

    visit = shared.visit
    begun = event(run.click, begin, visit, [visit, run, stop, status])
    queue = {"queue": True, "concurrency_id": "model", "concurrency_limit": 1}
    ran = event(begun.then, turn, [visit, *inputs], list(outputs), **queue)
    stop.click(None, None, status, js=f"() => ({json.dumps(say(STOPPING, 'wait'))})", **PRIVATE)
    event(stop.click, halt, visit, stop)
    return event(ran.then, end, visit, [run, stop, status])


def show_results(ended: Dependency, where: str) -> None:
    """Scroll to the results when their run has ended. where: their elem_id."""
    ended.then(None, None, None, js=call("common/static/page.js", "showResults", where), **PRIVATE)


def guarded(work: Work, count: int, visit: Visit, *values: Any) -> Iterator[tuple[Any, ...]]:
    """Run `work` for the newest run of a visit; errors become sentences."""
    ended, rest = visit.ended, (gr.skip(),) * (count - 1)
    given: tuple[Any, ...] = ({},)
    if ended.is_set():
        yield say("Stopped before it began.", "done"), *rest
        return
    try:
        for given in work(ended.is_set, *values):
            rest = given[1:]  # repeated with an error: see `connect`
            yield given
        # Another run has stopped this one, if it was not over.
        if visit.ended is not ended and "text" in given[0]:
            text = f"{given[0]['text']} You have started another run since."
            yield {**given[0], "text": text}, *rest
    except Exception as error:
        yield say(sentence(error), "error"), *rest


def sentence(error: Exception) -> str:
    """What a visitor is told of an error; the log gets one that is no mistake of theirs."""
    match error:
        case UserError():
            return str(error)
        case gr.Error():  # from ZeroGPU: no GPU is free, or no time is left
            return str(error.message)
    log.error("a run failed", exc_info=error)
    return SORRY


STARTING = "Starting. If another visitor’s run is in progress, yours starts next."


def waiting(engine: Engine) -> str:
    """What a run is waiting for, as a sentence; "" if it need not wait."""
    if engine.busy or engine.worker.waiting:
        return "Another run is in progress; yours starts next."
    if not engine.ready():
        return "The models are still loading; your run begins when they are ready."
    return ""
