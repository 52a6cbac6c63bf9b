"""The tab Layers (TLI): every N against EAGLE-2 on the visitor's prompt, and what N means."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from demo.common.charts import signed
from demo.common.controls import control, prompt_box
from demo.common.elements import words
from demo.common.methods import RIVAL, VANILLA, family
from demo.compare.bench import Bench
from demo.compare.run import Plan
from demo.engine import Engine
from demo.results.charts import CHARTS
from demo.results.tab import ours
from demo.session import PRIVATE, Shared
from demo.share import address_of, brought, load_address, named, share_fold, values_of
from demo.tli.drawing import drawing_html
from demo.tli.stops import STOPS
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.names import method_name
from moa_core.errors import UserError

ID, TITLE = "tli", "Layers (TLI)"
LONGEST = 256  # new tokens per run: a sweep has many runs
TREE = TreeSettings(5, 4, 11)  # one tree for all, so that only N differs
NAMES = ("prompt", "tokens", "repeats", "target")  # of the settings, in the order of events
RECORDED = {"tau": "tau", "rate": "speed", "phases": "times"}  # charts, as Benchmarks names them
LINKED = ("tokens", "repeats")  # what an address sets here


def build(demo: gr.Blocks, shared: Shared) -> gr.Textbox:
    engine = shared.engine
    with gr.Row(equal_height=False):
        with gr.Column(scale=3, min_width=320):
            settings = {"prompt": prompt_box("sweep-", "sweeps", lines=3, max_lines=10)}
            with gr.Row():
                settings["tokens"] = control(
                    "tokens", "sweep-", minimum=8, maximum=LONGEST, step=8, value=96
                )
                settings["repeats"] = control("repeats", "sweep-")
            bench = Bench("sweep-", "Sweep N")
        with gr.Column(scale=2, min_width=300, elem_id="sweep-meaning"):
            focus = gr.Radio(
                [(f"N = {stop}", stop) for stop in STOPS], value=1, label="What does N mean?",
                elem_id="sweep-focus",
            )  # fmt: skip
            drawing = words(drawing_html(1), elem_id="sweep-drawing")
    bench.results(("tau", "rate"), ("phases",), recorded=_recorded())
    settings["target"] = shared.target
    own = [settings[name] for name in NAMES]
    bench.wire(shared, own, partial(plan_of, engine))
    share_fold("sweep-", bench.status, address, own)
    linked = [settings[name] for name in LINKED]
    load_address(demo, partial(from_address, engine), [bench.status, *linked])
    focus.change(drawing_html, focus, drawing, queue=False, **PRIVATE)
    return settings["prompt"]


def address(*values: Any) -> tuple[Any, str]:
    return address_of(ID, dict(zip(NAMES, values, strict=True)))


def from_address(engine: Engine, request: gr.Request) -> tuple[Any, ...]:
    """Settings of the page's address: status, then a value for each of LINKED."""
    given, wrong = brought(engine, named(ID, request))
    if not 8 <= given.get("tokens", 8) <= LONGEST:
        wrong.append(f"tokens must be a number from 8 to {LONGEST}")
        del given["tokens"]
    return values_of(given, wrong, LINKED)


def plan_of(engine: Engine, prompt: str, tokens: int, repeats: int, target: str = "") -> Plan:
    """The plan: plain decoding, EAGLE-2 and every trained N. UserError if there is no N."""
    stops = engine.stops(target)
    if not stops:
        raise UserError(
            "There is no MoA drafter for this target, so there is no N to sweep: choose another "
            "target, or train drafters with python -m moa_core train drafters"
        )
    methods = [VANILLA, RIVAL] if RIVAL in engine.methods(target) else [VANILLA]
    methods += [method_name("moa", stop) for stop in stops]
    return Plan(
        prompt, tuple(methods), int(repeats), int(tokens), tree=TREE, target=target,
        most=len(methods),
    )  # fmt: skip


def _recorded() -> dict[str, Any]:
    """The charts before the first sweep: the benchmark with this tree, if it came with the page."""
    found = next((one for one in ours() if one.name == "Same tree float32"), None)
    if found is None:
        return {}
    swept = {name: one for name, one in found.methods.items()
             if family(name) == "moa" or name in (RIVAL, VANILLA)}  # fmt: skip
    found = replace(found, results={**found.results, "methods": swept})
    prompts = swept[VANILLA]["prompts"]
    about = f"recorded over {prompts} prompts · {found.target}, {found.precision} · tree {TREE}"
    drawn = {name: CHARTS[key](found) for name, key in RECORDED.items()}
    return {name: signed(figure, about) for name, figure in drawn.items() if figure}
