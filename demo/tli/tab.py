"""The tab Layers (TLI): every N on the visitor's own prompt against EAGLE-2, and what N means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import gradio as gr

from demo.common.charts import signed
from demo.common.controls import control
from demo.common.measure import Progress
from demo.common.methods import RIVAL, VANILLA
from demo.common.prompt import enter_presses, prompt_box
from demo.common.status import progress, progress_bar, say, status_line, words
from demo.compare.results import ended, sign, verdict_html
from demo.compare.rows import Row, rows, table
from demo.compare.run import Comparison, Plan, compare
from demo.engine import Engine
from demo.session import PRIVATE, Shared, Visit, connect, show_results
from demo.share import (
    Share,
    address_of,
    complaint,
    load_address,
    named,
    settings_of,
    share_fold,
    wire_share,
    wrong_target,
)
from demo.tli.charts import PANELS, panel
from demo.tli.drawing import drawing_html
from demo.tli.stops import STOPS
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.loading.names import method_name

ID, TITLE = "tli", "Layers (TLI)"
LONGEST = 256  # new tokens in one run: a sweep is many runs
TREE = TreeSettings(5, 4, 11)  # one tree for all, so that only N differs
NAMES = ("prompt", "tokens", "repeats", "target")  # of the settings, in the order of events
LINKED = ("tokens", "repeats")  # what an address sets here


@dataclass(frozen=True)
class Results:
    """What a finished sweep fills, in the order of the outputs."""

    whole: gr.Column
    verdict: gr.HTML
    tau: gr.Plot
    draft: gr.Plot
    rate: gr.Plot
    table: gr.Dataframe


@dataclass(frozen=True)
class Tli:
    """The components that events connect. settings: by NAMES."""

    settings: dict[str, Any]
    run: gr.Button
    stop: gr.Button
    status: gr.HTML
    progress: gr.HTML
    focus: gr.Radio
    drawing: gr.HTML
    results: Results
    share: Share

    @property
    def prompt(self) -> gr.Textbox:
        return self.settings["prompt"]


def build(shared: Shared) -> Tli:
    """Lay the tab out; nothing is connected yet."""
    made: dict[str, Any] = {}
    with gr.Row(equal_height=False):
        with gr.Column(scale=3, min_width=320):
            settings = _settings() | {"target": shared.target}
            with gr.Row(elem_classes="buttons"):
                made["run"] = gr.Button("Sweep N", variant="primary", elem_id="sweep-run")
                made["stop"] = gr.Button("Stop", interactive=False, elem_id="sweep-stop")
            made["status"] = status_line(elem_id="sweep-status")
            made["progress"] = progress_bar(elem_id="sweep-progress")
        with gr.Column(scale=2, min_width=300, elem_id="sweep-meaning"):
            made["focus"] = gr.Radio(
                [(f"N = {stop}", stop) for stop in STOPS], value=1, label="What does N mean?",
                elem_id="sweep-focus",
            )  # fmt: skip
            made["drawing"] = words(drawing_html(1), elem_id="sweep-drawing")
    results, share = _results(), share_fold("sweep-")
    return Tli({name: settings[name] for name in NAMES}, **made, results=results, share=share)


def _settings() -> dict[str, Any]:
    made: dict[str, Any] = {"prompt": prompt_box("sweep-", "sweeps", lines=3, max_lines=10)}
    with gr.Row():
        made["tokens"] = control("tokens", "sweep-", minimum=8, maximum=LONGEST, step=8, value=96)
        made["repeats"] = control("repeats", "sweep-", value=2)
    return made


def _results() -> Results:
    with gr.Column(visible=False, elem_id="sweep-results") as whole:
        words("<h2>Measured here, on this prompt</h2>", elem_id="sweep-title")
        verdict = words("", elem_id="sweep-verdict", elem_classes="verdict")
        with gr.Row(elem_classes="sweep-panels"):
            tau, draft, rate = (_plot(f"sweep-{key}") for key in PANELS)
        shown = gr.Dataframe(
            interactive=False, wrap=True, label="Table", show_label=False, buttons=[],
            elem_id="sweep-table",
        )  # fmt: skip
    return Results(whole, verdict, tau, draft, rate, shown)


def _plot(name: str, figure: Any = None) -> gr.Plot:
    with gr.Column(min_width=240):
        return gr.Plot(
            figure, show_label=False, container=False, elem_id=name, elem_classes="sweep-plot"
        )


def wire(demo: gr.Blocks, tab: Tli, shared: Shared) -> None:
    """Connect the tab's components."""
    engine, settings = shared.engine, tab.settings

    def work(visit: Visit, stop: Callable[[], bool], *values: Any) -> Iterator[tuple[Any, ...]]:
        del visit
        yield from run(engine, stop, plan_of(engine, *values))

    results = [getattr(tab.results, one.name) for one in fields(Results)]
    outputs = [tab.status, tab.progress, *results]
    last = connect(shared, tab.run, tab.stop, work, list(settings.values()), outputs)
    show_results(last, "sweep-results")
    enter_presses(tab.prompt, "sweep-run")
    wire_share(tab.share, tab.status, address, list(settings.values()))
    linked = [settings[name] for name in LINKED]
    load_address(demo, partial(from_address, engine), [tab.status, *linked])
    gr.on(
        [demo.load, tab.focus.change, shared.target.change], partial(_draw, engine),
        [tab.focus, shared.target], tab.drawing, concurrency_limit=None,
        trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip


def address(*values: Any) -> tuple[Any, str]:
    """These settings as a query string: (status, query)."""
    return address_of(ID, dict(zip(NAMES, values, strict=True)))


def from_address(engine: Engine, request: gr.Request) -> tuple[Any, ...]:
    """Settings of the page's address: status, then a value for each of LINKED."""
    given, wrong = settings_of(named(ID, request))
    wrong += wrong_target(engine, given)
    if not 8 <= given.get("tokens", 8) <= LONGEST:
        wrong.append(f"tokens must be a number from 8 to {LONGEST}")
        del given["tokens"]
    return complaint(wrong), *(given.get(name, gr.skip()) for name in LINKED)


def _draw(engine: Engine, tli: int, target: str) -> Iterator[str]:
    """The drawing, with the target's own number of layers as soon as that is known."""
    if not engine.ready(target):
        yield drawing_html(int(tli))
    try:
        yield drawing_html(int(tli), len(engine.target(target).layers))
    except UserError:  # the line above the tabs says why there is no target
        yield drawing_html(int(tli))


def plan_of(engine: Engine, prompt: str, tokens: int, repeats: int, target: str = "") -> Plan:
    """Plain decoding, EAGLE-2 and every trained N. UserError if there is no N to sweep."""
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


def run(engine: Engine, should_stop: Callable[[], bool], plan: Plan) -> Iterator[tuple[Any, ...]]:
    """One sweep: (status, progress, *results), again and again."""
    made = Comparison(plan=plan)
    nothing = (gr.skip(),) * len(fields(Results))
    said: Any = say("One run after the other; the methods take turns.")
    try:
        step: Progress
        for step in compare(engine, made, should_stop):
            yield said, progress(step.words, step.share), *nothing
            said = gr.skip()
    except Exception:
        yield gr.skip(), progress(), *nothing
        raise
    found = rows(made)
    yield say(ended(made), "done"), progress(), *(_shown(made, found) or nothing)


def _shown(made: Comparison, found: Sequence[Row]) -> tuple[Any, ...] | None:
    """Values for the results; None where there is nothing to show."""
    if all(row.tau is None for row in found):
        return None
    about = sign(made)
    drawn = (signed(panel(found, key), about, 40) for key in PANELS)
    return gr.update(visible=True), verdict_html(found), *drawn, table(found)
