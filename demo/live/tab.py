"""The Live tab, the stage: a prompt decoded live, and its comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gradio as gr

from demo.common.controls import folded, prompt_box
from demo.common.elements import component, plot, say, status_line, words
from demo.common.methods import VANILLA, family, label, tli_of
from demo.common.tokens.view import trace_view
from demo.engine import Engine
from demo.live import device
from demo.live import run as runs
from demo.live.charts import CHARTS
from demo.live.follow import follow
from demo.live.recording import recording
from demo.live.settings import LINKED, NAMES, Settings, choose, from_address, link
from demo.session import PRIVATE, Shared, Visit, connect, show_results
from demo.share import load_address, share_box
from demo.tli.stops import STOPS, stops_html
from moa_core.errors import UserError
from moa_core.loading import smollm2

ID, TITLE = "live", "Live"
CAN = "SmolLM2-135M, a small open chat model: fluent, often wrong."
UNFILTERED = (
    "Your prompt is not logged or sent on, and kept only until the server stops. Answers are "
    "unfiltered and may be wrong."
)
FEW = ("moa", "given", "eagle2", "eagle3", VANILLA)  # methods in the switch; the others are folded
# The cut is at the last visible token, which only the page knows.
CUT_AT = """on => {
  const tokens = document.querySelectorAll("#view .text .token:not(.rejected)");
  const running = document.querySelector("#view .token-view").dataset.state === "running";
  return on || !running ? 0 : tokens.length;
}"""
FOLLOWED = "() => { window.dispatchEvent(new CustomEvent('followed')); }"
TURNED = "on => { window.dispatchEvent(new CustomEvent('link-turned', { detail: on })); }"
DRAFTED = "() => [null, window.drafted]"
AGAIN = "() => { window.dispatchEvent(new CustomEvent('run-again')); }"


def build(demo: gr.Blocks, shared: Shared) -> gr.Textbox:
    engine, recorded = shared.engine, recording()
    settings: dict[str, Any] = {"target": shared.target}
    with gr.Column(elem_id="stage"):
        with gr.Column(elem_id="ask"):
            can = f"{CAN} {UNFILTERED}" if engine.first == smollm2.NAME else UNFILTERED
            settings["prompt"] = prompt_box("", "runs it", lines=2, max_lines=4, info=can)
            _more("examples", "#examples")
            with gr.Row(elem_classes="buttons"):
                run = gr.Button("Run", variant="primary", elem_id="run")
                stop = gr.Button("Stop", interactive=False, elem_id="stop")
            status = status_line(elem_id="status")
        with gr.Column(elem_id="how"):
            drafter, stops = _drafter(engine)
            settings |= drafter | _connection(engine)
        view = trace_view(
            "common/tree/tree.js", "live/stage.js", "live/device.js", elem_id="view",
            recorded=recorded and recorded.ndjson,
        )  # fmt: skip
        drawn = recorded.known.figures if recorded else {}
        with gr.Row(elem_id="charts", elem_classes="" if engine.borrows else "follow"):
            charts = [
                plot(drawn.get(name), elem_id=f"chart-{name}", min_width=200) for name in CHARTS
            ]
    settings |= folded("", "tokens", "temperature", "top_p", "seed")
    settings = {name: settings[name] for name in NAMES}
    save = _files(shared, settings, status, view)
    _wire_runs(shared, settings, (run, stop), (status, view), charts, save)
    _wire_settings(demo, shared, settings, status, stops)
    return settings["prompt"]


def _more(what: str, of: str) -> None:
    """A button that shows the rest of a component's choices."""
    template = f'<button type="button" class="unfold" aria-expanded="false">more {what}</button>'
    component(template, "live/unfold.js", of=of, what=what, elem_classes="unfolds")


def _drafter(engine: Engine) -> tuple[dict[str, Any], gr.HTML]:
    method = engine.default()
    kinds = dict.fromkeys(family(name) for name in engine.methods())
    ranked = sorted(kinds, key=lambda name: FEW.index(name) if name in FEW else len(FEW))
    choice = gr.Radio(
        [("MoA" if name in ("moa", "given") else label(name), name) for name in ranked],
        value=family(method), label="Method", elem_id="method",
        elem_classes=f"few-{sum(name in FEW for name in ranked)}",
    )  # fmt: skip
    _more("methods", "#method")
    with gr.Group(elem_classes="tli"):
        slider = gr.Slider(
            STOPS[0], STOPS[-1], tli_of(method), step=1, precision=0, elem_id="tli", buttons=[],
            label="TLI: target layers reused (N)", interactive=family(method) == "moa",
        )  # fmt: skip
        stops = words(stops_html(engine, method), elem_id="tli-stops")
    return {"method": choice, "tli": slider}, stops


def _connection(engine: Engine) -> dict[str, Any]:
    note = (
        "Off: the drafter continues alone, in your browser once it is loaded, else on the server. "
        "On again: the target corrects its text. Off before Run: the link is lost after 12 tokens."
    )
    if engine.borrows:
        note = "It cannot be cut here: GPUs are lent for one run at a time."
    return {
        "connection": gr.Checkbox(
            True, label="Connection to the target", info=note, elem_id="connection",
            interactive=not engine.borrows,
        ),
        "cut_at": gr.Number(0, visible="hidden", elem_id="cut-at"),
        "here": gr.Textbox("", visible="hidden"),
    }  # fmt: skip


def _files(
    shared: Shared, settings: dict[str, Any], status: gr.HTML, view: gr.HTML
) -> gr.DownloadButton:
    """Below the stage: trace files and the link. Returns the save button."""
    with (
        gr.Accordion("Save, open, share", open=False, elem_id="files"),
        gr.Row(equal_height=False),
    ):
        with gr.Column(min_width=260):
            save = gr.DownloadButton("Save this trace", interactive=False, elem_id="save")
            file = gr.File(
                label="Open a trace of this page or of the command line (--trace)",
                file_types=[".json"], file_count="single", height=150, elem_id="open",
            )  # fmt: skip
        with gr.Column(min_width=260):
            share_box("", status, partial(link, ID), [settings[name] for name in LINKED])
    opened = file.upload(open_file, [shared.visit, file], [status, view], **PRIVATE)
    show_results(opened, "stage")
    opened.then(lambda: None, None, file, queue=False, **PRIVATE)  # so that another can be opened
    return save


def _wire_runs(
    shared: Shared, settings: dict[str, Any], buttons: tuple[gr.Button, gr.Button],
    shows: tuple[gr.HTML, gr.HTML], charts: list[gr.Plot], save: gr.DownloadButton,
) -> None:  # fmt: skip
    """Connect Run and Stop, the runs that follow, and the events of runs in this browser."""
    engine, view = shared.engine, shows[1]

    def run(visit: Visit, stop: Callable[[], bool], *values: Any) -> Iterator[tuple[Any, ...]]:
        yield from runs.run(visit, engine, Settings(*values), stop)

    ran = connect(shared, *buttons, run, list(settings.values()), shows, device.wait)
    drafted = gr.Textbox(visible="hidden")
    view.drafted(
        partial(device.keep, engine), [shared.visit, drafted], None, js=DRAFTED, queue=False,
        **PRIVATE,
    )  # fmt: skip
    view.left(Visit.stop, shared.visit, None, queue=False, **PRIVATE).then(
        None, None, None, js=AGAIN, **PRIVATE
    )
    view.taken(None, None, settings["cut_at"], js="() => 0", **PRIVATE)
    view.here(None, None, settings["here"], js="() => window.drafterHere", **PRIVATE)
    ran.then(runs.saved, shared.visit, save, queue=False, **PRIVATE)
    ran.then(
        partial(follow, engine=engine), shared.visit, [view, *charts], concurrency_id="follow",
        concurrency_limit=1, **PRIVATE,
    )  # fmt: skip


def _wire_settings(
    demo: gr.Blocks, shared: Shared, settings: dict[str, Any], status: gr.HTML, stops: gr.HTML
) -> None:
    engine = shared.engine
    gr.on(
        [settings["method"].input, settings["tli"].input, shared.target.input],
        partial(choose, engine), [shared.target, settings["method"], settings["tli"]],
        [settings["tli"], stops], queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    switch = settings["connection"]
    switch.input(runs.reconnect, [shared.visit, switch], None, queue=False, **PRIVATE)
    switch.input(None, switch, settings["cut_at"], js=CUT_AT, **PRIVATE).then(
        None, switch, None, js=TURNED, **PRIVATE
    )
    read = partial(from_address, engine, shared.tabs)
    shown = [status, stops, *(settings[name] for name in LINKED[1:])]
    load_address(demo, read, shown, shared.header.follow).then(
        None, None, None, js=FOLLOWED, **PRIVATE
    )


def open_file(visit: Visit, path: str | None) -> tuple[Any, Any]:
    """Show a saved trace, or a sentence if it is invalid."""
    try:
        return runs.open_trace(visit, path)
    except UserError as error:
        return say(str(error), "error"), gr.skip()
