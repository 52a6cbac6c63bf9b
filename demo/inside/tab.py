"""The tab Inside a cycle: each cycle's draft tree, and the drafter's attention."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from demo.common.elements import call, component, plot, say, status_line, words
from demo.engine import Engine
from demo.inside.attention import layers_chart, look_inside, refusal, takeaway, text_chart
from demo.inside.view import packed
from demo.live.recording import recording
from demo.session import PRIVATE, Shared, connect, show_results
from demo.share import press_named
from demo.worker import Stop
from moa_core.decoding.trace import Trace
from moa_core.errors import UserError
from moa_core.text import record_words, tokenizer_of

ID, TITLE = "inside", "Inside a cycle"
READ = (
    "<p>Rows are tokens; a stronger colour is a larger share. <b>LSA</b>, layer self-attention, "
    "sums up each token’s layers in one memory. <b>CA</b>, cross-attention, reads these memories; "
    "each of its heads looks in its own way. The newest token has no row: the target has not read "
    "it yet. In CA, “others” are earlier tokens and the chat template’s; the row below them is the "
    "one of these that is read most.</p>"
)
Pair = tuple[Trace, Trace | None]  # a run, and another method's run of the same prompt
ASK = (
    "EAGLE-2 sees only the target’s last layer, MoA all of them. Which layers did the drafter look "
    "at in this cycle, and which tokens?"
)


def build(shared: Shared) -> None:
    engine = shared.engine
    view = component(
        '<div class="inside-view tokens"></div>', "inside/view.js", 0, events=("shown",), trace="",
        elem_id="inside-view",
    )  # fmt: skip
    with gr.Column(visible=False, elem_id="inside-ask") as ask:
        words("<h2>Inside the drafter</h2>")
        about = status_line(ASK, elem_id="inside-about")
        button = gr.Button("Look inside the drafter", elem_id="inside-look")
    stop = gr.Button("Stop", interactive=False, elem_id="inside-stop")
    status = status_line(elem_id="inside-status")
    with gr.Column(visible=False, elem_id="inside-found") as found:
        told = words("", elem_id="inside-told")
        words(READ, elem_classes="note")
        with gr.Row():
            with gr.Column(min_width=320):
                layers = plot(elem_id="inside-layers-chart")
            with gr.Column(min_width=320):
                text = plot(elem_id="inside-text-chart")
    pair = gr.State()  # the traces shown

    shows = [status, view, pair, ask, about, button, found]
    newest = [gr.Textbox(visible="hidden") for _ in "12"]  # traces, as the browser has them
    view.shown(
        partial(_open, engine), [pair, *newest], shows, js=call("live/run.js", "traces"),
        queue=False, **PRIVATE,
    )  # fmt: skip
    outputs, work = [status, found, told, layers, text], partial(look, engine)
    show_results(connect(shared, button, stop, work, [pair, view], outputs), "inside-found")
    press_named(shared.header.follow, ID)


def look(engine: Engine, _: Stop, shown: Pair | None, cycle: int) -> Iterator[tuple[Any, ...]]:
    """What the button shows: status, found, told, layers, text. shown: None after the server has
    begun anew, which keeps no visitor's runs."""
    if shown is None:
        raise UserError("The server has lost this run: open another tab, come back and look again.")
    seen = look_inside(engine, shown[0], int(cycle))
    yield (
        say(f"Attention at cycle {seen.cycle + 1} is shown below.", "done"),
        gr.update(visible=True),
        takeaway(seen),
        gr.update(value=layers_chart(seen), visible=seen.layers is not None),
        text_chart(seen),
    )


def _open(engine: Engine, shown: Pair | None, mine: str, rival: str) -> tuple[Any, ...]:
    """After the tab is opened: show the visitor's newest trace if it has changed, or the recorded
    one if there is none.

    Returns status, view, shown, ask, about, look, found.
    """
    kept, skip = recording(), gr.skip()
    try:
        if mine:
            pair: Pair = _read(engine, mine), _read(engine, rival) if rival else None
        elif kept:
            pair = kept.trace, kept.rival
        else:
            return say("Press Run in Live first: its cycles are then shown here."), *(skip,) * 6
        if shown and pair == shown:
            return (skip,) * 7
        whose = "The newest run in Live" if mine else "A recorded run (yours: press Run in Live)"
        view, reason = packed(*pair, whose), refusal(engine, pair[0])
    except UserError as error:
        return say(str(error), "error"), *(skip,) * 6
    cycles = bool(pair[0].accepted_lengths)
    return (
        say("" if cycles else "This run ended before its first cycle: there is nothing to show."),
        gr.update(trace=view),
        pair,
        gr.update(visible=cycles),
        say(reason or ASK),
        gr.update(visible=reason is None),
        gr.update(visible=False),
    )


def _read(engine: Engine, text: str) -> Trace:
    """A trace from the browser; what it drafted itself has no words yet."""
    trace = Trace.from_json(text)
    if "words" not in trace.about:
        record_words(trace, tokenizer_of(engine.target()))
    return trace
