"""The TLI tab: every N on the visitor's own prompt, what N means, and N chosen while decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from demo.common.measure import MOST_REPEATS, Measured
from demo.common.methods import AUTO
from demo.common.prompt import enter_presses, prompt_box
from demo.common.status import progress, progress_bar, say, status_line, words
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
from demo.tli.charts import PANELS, panel, paper_panel, strip
from demo.tli.drawing import drawing_html
from demo.tli.rows import Row, rows_of, sameness, sentences
from demo.tli.run import SAME, Plan, sweep
from demo.tli.stops import STOPS
from demo.tli.table import table_html
from moa_core.bench.paper import Paper, published
from moa_core.errors import UserError

ID, TITLE = "tli", "TLI"
LONGEST = 256  # new tokens in one run: a sweep is many runs
SAME_TREE = f"depth {SAME.depth}, breadth {SAME.breadth}, {SAME.budget} drafts"
TREES = [(f"One for all: {SAME_TREE}", "same"), ("Each N its own, the one measured for it", "own")]
ABOUT_AUTO = (
    "<p><b>Auto N</b> chooses N anew in each cycle. It measures what each N gains and how long its "
    "cycles take, and drafts with the one that promises most tokens per second. An N that has not "
    "drafted for long is tried again, and first reads what it has missed. All of that counts as "
    "its time. The paper leaves this to future work.</p>"
)
NAMES = [one.name for one in fields(Plan)]
LINKED = ("tokens", "repeats", "trees", "auto")  # what an address sets here


@dataclass(frozen=True)
class Results:
    """What a finished sweep fills, in the order of the outputs."""

    whole: gr.Column
    verdict: gr.HTML
    tau: gr.Plot
    draft: gr.Plot
    rate: gr.Plot
    table: gr.HTML
    strip: gr.Plot
    about_strip: gr.HTML


@dataclass(frozen=True)
class Tli:
    """The components that events connect. settings: by the names of `Plan`."""

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
    if paper := published():
        _paper(paper)
    return Tli({name: settings[name] for name in NAMES}, **made, results=results, share=share)


def _settings() -> dict[str, Any]:
    made: dict[str, Any] = {"prompt": prompt_box("sweep-", "sweeps", lines=3, max_lines=10)}
    with gr.Row():
        made["tokens"] = gr.Slider(
            8, LONGEST, 96, step=8, precision=0, label="New tokens at most",
            elem_id="sweep-length", buttons=[], min_width=200,
        )  # fmt: skip
        made["repeats"] = gr.Slider(
            1, MOST_REPEATS, 2, step=1, precision=0, label="Repeats", elem_id="sweep-repeats",
            buttons=[], min_width=160,
        )  # fmt: skip
    made["trees"] = gr.Radio(TREES, value="same", label="Draft tree", elem_id="sweep-trees")
    made["auto"] = gr.Checkbox(
        True, label="Auto N, too: N chosen anew in each cycle", elem_id="sweep-auto"
    )
    return made


def _results() -> Results:
    with gr.Column(visible=False, elem_id="sweep-results") as whole:
        _html("<h2>Measured here, on this prompt</h2>")
        verdict = _html("", elem_id="sweep-verdict")
        with gr.Row(elem_classes="sweep-panels"):
            tau, draft, rate = (_plot(f"sweep-{key}") for key in PANELS)
        table = _html("", elem_id="sweep-table")
        chosen = _plot("sweep-strip", visible=False)
        about = _html("", elem_id="sweep-about-strip", visible=False)
    return Results(whole, verdict, tau, draft, rate, table, chosen, about)


def _paper(known: Paper) -> None:
    """The authors' figures, below ours, so that τ stands under τ and speed under speed."""
    stops = ", ".join(map(str, known.by_tli))
    about = (
        f"<p>The authors’ own figures for N = {stops}: {escape(known.target)}, "
        f"{escape(known.settings)}, the mean of {len(known.sets)} sets as printed. Another model, "
        "another machine and other texts than here, so compare the shapes, not the numbers: τ "
        "rises with N, speed is level and then falls.</p>"
        f"<p><small>{escape(known.source['paper'])}. Its machine is not stated, and in its table "
        "the GSM8K cells repeat those of MT-bench; the means include them.</small></p>"
    )
    _html("<h2>In the paper, not measured here</h2>", elem_id="sweep-paper-title")
    with gr.Row(elem_classes="sweep-panels"):
        _plot("sweep-paper-tau", paper_panel(known, "tau"))
        with gr.Column(min_width=240):
            _html(about, elem_id="sweep-paper")
        _plot("sweep-paper-speed", paper_panel(known, "speed_up"))


def _html(value: str, **kwargs: Any) -> gr.HTML:
    return words(value, elem_classes="sweep-words", **kwargs)


def _plot(name: str, figure: Any = None, visible: bool = True) -> gr.Plot:
    with gr.Column(min_width=240):
        return gr.Plot(
            figure, show_label=False, container=False, elem_id=name, elem_classes="sweep-plot",
            visible=visible,
        )  # fmt: skip


def wire(demo: gr.Blocks, tab: Tli, shared: Shared) -> None:
    """Connect the tab's components."""
    engine, settings = shared.engine, tab.settings

    def work(visit: Visit, stop: Callable[[], bool], *values: Any) -> Iterator[tuple[Any, ...]]:
        del visit
        yield from run(engine, stop, Plan(*values))

    def from_link(request: gr.Request) -> tuple[Any, ...]:
        return from_address(engine, request)

    results = [getattr(tab.results, one.name) for one in fields(Results)]
    outputs = [tab.status, tab.progress, *results]
    ended = connect(shared, tab.run, tab.stop, work, list(settings.values()), outputs)
    show_results(ended, "sweep-results")
    enter_presses(tab.prompt, "sweep-run")
    wire_share(tab.share, tab.status, address, list(settings.values()))
    linked = [settings[name] for name in LINKED]
    load_address(demo, from_link, [tab.status, *linked], "sweep-run")
    gr.on(
        [demo.load, tab.focus.change, shared.target.change], partial(_draw, engine),
        [tab.focus, shared.target], tab.drawing, concurrency_limit=None,
        trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip


def address(*values: Any) -> tuple[Any, str]:
    """These settings as a query string: (status, query)."""
    given = dict(zip(NAMES, values, strict=True))
    return address_of(ID, given | {"auto": int(given["auto"])})


def from_address(engine: Engine, request: gr.Request) -> tuple[Any, ...]:
    """Settings of the page's address: status, then a value for each of LINKED."""
    given, wrong = settings_of(named(ID, request))
    wrong += wrong_target(engine, given)
    if not 8 <= given.get("tokens", 8) <= LONGEST:
        wrong.append(f"tokens must be a number from 8 to {LONGEST}")
        del given["tokens"]
    if given.get("trees", "own") not in ("own", "same"):
        wrong.append("trees must be one of own, same")
        del given["trees"]
    if "auto" in given:
        given["auto"] = bool(given["auto"])
    return complaint(wrong), *(given.get(name, gr.skip()) for name in LINKED)


def _draw(engine: Engine, tli: int, target: str) -> Iterator[str]:
    """The drawing, with the target's own number of layers as soon as that is known."""
    if not engine.ready(target):
        yield drawing_html(int(tli))
    try:
        yield drawing_html(int(tli), len(engine.target(target).layers))
    except UserError:  # the line above the tabs says why there is no target
        yield drawing_html(int(tli))


def run(engine: Engine, should_stop: Callable[[], bool], plan: Plan) -> Iterator[tuple[Any, ...]]:
    """One sweep: (status, progress, *results), again and again."""
    made = Measured()
    nothing = (gr.skip(),) * len(fields(Results))
    said: Any = say("One run after the other; the methods take turns.")
    try:
        for step in sweep(engine, plan, made, should_stop):
            yield said, progress(step.words, step.share), *nothing
            said = gr.skip()
    except Exception:
        yield gr.skip(), progress(), *nothing
        raise
    rows = rows_of(made.traces)
    shown = _shown(plan, rows, engine.stops(plan.target)) or nothing
    yield say(summary(made, rows), "done"), progress(), *shown


def summary(made: Measured, rows: Sequence[Row]) -> str:
    """How a sweep ended, and whether all its runs wrote one text."""
    if not any(row.fixed for row in rows):
        if made.finished < made.wanted:
            return "Stopped before a run of any N was finished: nothing was measured."
        return "The target ended its answer with its first token: there is nothing to measure."
    seconds = sum(sum(one.seconds.values()) for found in made.traces.values() for one in found)
    done = f"{made.finished} runs in {seconds:.1f} s of decoding"
    if made.finished < made.wanted:
        done = f"You pressed Stop: {made.finished} of {made.wanted} runs are done, and shown"
    return f"{done}. {sameness(made.traces)}".strip()


def _shown(plan: Plan, rows: Sequence[Row], stops: Sequence[int]) -> tuple[Any, ...] | None:
    """Values for the results; None where there is nothing to show."""
    if not any(row.fixed for row in rows):
        return None
    said = "".join(f"<p><b>{escape(lead)}</b>{escape(rest)}</p>" for lead, rest in sentences(rows))
    tree = "Each N has the tree measured for it."
    if plan.trees == "same":
        tree = f"One for all: {SAME_TREE}."
    auto = next((row for row in rows if row.method == AUTO), None)
    drawn, about = None, ""
    if auto:
        drawn = strip([tli or 0 for tli in auto.choices], stops)
        about = f"<p>{len(auto.choices)} cycles of its newest run.</p>{ABOUT_AUTO}"
    return (
        gr.update(visible=True), said, *(panel(rows, key) for key in PANELS),
        table_html(rows, tree), gr.update(value=drawn, visible=auto is not None),
        gr.update(value=about, visible=auto is not None),
    )  # fmt: skip
