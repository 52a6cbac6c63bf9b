"""The Live tab, the stage: a prompt decoded live beside plain decoding, and one cycle of it."""

import json
from functools import partial
from typing import Any

import gradio as gr

from demo.common.controls import ask, folded
from demo.common.elements import call, component, status_line, words
from demo.common.figures import many
from demo.common.methods import VANILLA, family, label, tli_of
from demo.engine import Engine
from demo.live.recording import Recording, recording
from demo.live.settings import NAMES, check, choose
from demo.results import tab as results
from demo.session import PRIVATE, Shared
from demo.share import load_address, share_box
from demo.tli.stops import slider_bounds, stops_html
from moa_core.loading.hub import DEFAULT

ID, TITLE = "live", "Live"
CAN = (
    "SmolLM2, a real chat model of 135 million parameters: fluent, often wrong. Drafting changes "
    "its speed, never its answers. One question, no memory."
)
UNFILTERED = "Your prompt is not logged or sent on. Answers are unfiltered."
FIRST = ("moa", "given", "eagle2", "eagle3", VANILLA)  # of the methods, in this order
FILES = (
    '<div class="files"><button type="button" class="quiet-button" id="save">Save this trace'
    "</button><label>Open a trace of this page or of the command line (--trace): <input "
    'type="file" id="open" accept=".json,application/json"></label></div>'
)
RUN = "live/run.js"


def build(shared: Shared) -> gr.Textbox:
    engine, recorded = shared.engine, recording()
    settings: dict[str, Any] = {"target": shared.target}
    with gr.Column(elem_id="stage"):
        with gr.Column(elem_id="ask"):
            settings["prompt"], run, stop = ask("", "runs it", stops=True)
            status = status_line(elem_id="status")
        component(
            '<div class="stage-view tokens"></div>', RUN, elem_id="view",
            recorded=json.dumps(recorded and recorded.stage()), target=engine.first,
            borrows=engine.borrows, first=engine.default(), mean=_mean(recorded),
        )  # fmt: skip
        component('<div class="cut"></div>', RUN, mount="mountCut", elem_id="connection")
        with gr.Row(elem_id="how", equal_height=False):
            drafter, stops = _drafter(engine)
            settings |= drafter
            with gr.Column(min_width=220, elem_id="settings-box"):
                settings |= folded("", "tokens", "temperature", "top_p", "seed")
    can = f"{CAN} {UNFILTERED}" if engine.first == DEFAULT else UNFILTERED
    words(f"<p>{can}</p>", elem_classes="note", elem_id="can")
    settings = {name: settings[name] for name in NAMES}
    with gr.Accordion("Save, open, share", open=False, elem_id="files"):
        component(FILES, RUN, mount="mountFiles")
        share_box("", ID, status, settings)
    _wire(shared, settings, (run, stop), (status, stops))
    return settings["prompt"]


def _mean(recorded: Recording | None) -> str:
    """A benchmark's gain of the recorded method, beside the recording's one prompt."""
    about = recorded.trace.about if recorded else {}
    if not (one := results.first(str(about.get("target")))):
        return ""
    found = one.methods.get(str(about.get("method")), {})
    gain, prompts = found.get("speedup"), many(found.get("prompts", 0), "prompt")
    return f"On {prompts}, see Benchmarks: {gain:.2f} ×" if gain else ""


def _drafter(engine: Engine) -> tuple[dict[str, Any], gr.HTML]:
    method = engine.default()
    kinds = dict.fromkeys(family(name) for name in engine.methods())
    ranked = sorted(kinds, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    choice = gr.Dropdown(
        [("MoA" if name in ("moa", "given") else label(name), name) for name in ranked],
        value=family(method), label="Method", elem_id="method", filterable=False, min_width=190,
    )  # fmt: skip
    with gr.Column(elem_id="tli-box", min_width=260):
        slider = gr.Slider(
            0, value=tli_of(method), step=1, precision=0, elem_id="tli", buttons=[],
            label="Borrow the target’s last layers (N)", **slider_bounds(engine, method),
        )  # fmt: skip
        stops = words(stops_html(engine, method), elem_id="tli-stops")
    return {"method": choice, "tli": slider}, stops


def _wire(
    shared: Shared, settings: dict[str, Any], buttons: tuple[gr.Button, gr.Button],
    shows: tuple[gr.HTML, gr.HTML],
) -> None:  # fmt: skip
    """Connect Run and Stop, which act in the browser, and the settings."""
    engine, all_of = shared.engine, [*settings.values()]
    (run, stop), (status, stops), before = buttons, shows, gr.State(0)
    run.click(None, all_of, None, js=call(RUN, "run"), **PRIVATE)
    stop.click(None, None, None, js=call(RUN, "stop"), **PRIVATE)
    told = {"js": call(RUN, "changed"), "trigger_mode": "always_last", **PRIVATE}
    gr.on([shared.page.load, *(one.change for one in all_of)], None, all_of, None, **told)
    gr.on(
        [settings[name].change for name in ("method", "tli", "target")],
        partial(choose, engine), [shared.target, settings["method"], settings["tli"], before],
        [settings["tli"], stops, before], queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    linked = {name: settings[name] for name in NAMES[1:]}
    load_address(shared, ID, status, linked, check)
