"""The TLI tab: every N on the visitor's own prompt, what N means, and N chosen while decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from demo.common.links import settings_of
from demo.common.methods import AUTO
from demo.common.progress import progress, progress_bar
from demo.common.prompt import enter_presses, prompt_box
from demo.common.shared import Shared
from demo.common.status import say, status_line
from demo.common.turns import MOST_REPEATS
from demo.engine import Engine
from demo.session import PRIVATE, Visit, connect, show_results
from demo.share import (
    Share,
    address_of,
    complaint,
    load_address,
    named,
    share_fold,
    wire_share,
    wrong_target,
)
from demo.tli.charts import PANELS, panel, paper_panel, strip
from demo.tli.drawing import drawing_html
from demo.tli.rows import Row, rows_of, sameness, sentences
from demo.tli.run import Plan, Sweep, sweep, tokens_swept
from demo.tli.stops import STOPS
from demo.tli.table import table_html
from moa_core.bench.paper import Paper, published
from moa_core.bench.tuning import SAME
from moa_core.errors import UserError

ID, TITLE = "tli", "TLI"
LONGEST = 256  # new tokens in one run: a sweep is many runs
SAME_TREE = f"depth {SAME.depth}, breadth {SAME.breadth}, {SAME.budget} drafts"
TREES = [(f"One for all: {SAME_TREE}", "same"), ("Each N its own, the one measured for it", "own")]
ABOUT_AUTO = (
    "<p><b>Auto N</b> decides anew in each cycle. It measures what each N gains and how long its "
    "cycles take, and lets the one draft that promises most tokens per second; one that has not "
    "drafted for long is tried again, and first reads what it has missed. All of that is part of "
    "its time. The paper leaves this to future work.</p>"
)


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

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, one.name) for one in fields(self))


@dataclass(frozen=True)
class Tli:
    """The components that events connect."""

    prompt: gr.Textbox
    length: gr.Slider
    repeats: gr.Slider
    trees: gr.Radio
    auto: gr.Checkbox
    run: gr.Button
    stop: gr.Button
    status: gr.HTML
    progress: gr.HTML
    focus: gr.Radio
    drawing: gr.HTML
    results: Results
    share: Share


def build(shared: Shared) -> Tli:
    """Lay the tab out; nothing is connected yet."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=3, min_width=320):
            controls = _controls()
        with gr.Column(scale=2, min_width=300, elem_id="sweep-meaning"):
            focus = gr.Radio(
                [(f"N = {stop}", stop) for stop in STOPS], value=1, label="What does N mean?",
                elem_id="sweep-focus",
            )  # fmt: skip
            drawing = gr.HTML(drawing_html(1), elem_id="sweep-drawing", apply_default_css=False)
    results = _results()
    share = share_fold("sweep-")
    if paper := published():
        _paper(paper)
    return Tli(**controls, focus=focus, drawing=drawing, results=results, share=share)


def _controls() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["prompt"] = prompt_box("sweep-", "sweeps", lines=3, max_lines=10)
    with gr.Row():
        made["length"] = gr.Slider(
            8, LONGEST, 96, step=8, label="New tokens at most", elem_id="sweep-length", buttons=[],
            min_width=200,
        )  # fmt: skip
        made["repeats"] = gr.Slider(
            1, MOST_REPEATS, 2, step=1, label="Repeats", elem_id="sweep-repeats", buttons=[],
            min_width=160,
        )  # fmt: skip
    made["trees"] = gr.Radio(TREES, value="same", label="Draft tree", elem_id="sweep-trees")
    made["auto"] = gr.Checkbox(True, label="Auto N, too: N chosen anew in each cycle",
                               elem_id="sweep-auto")  # fmt: skip
    with gr.Row(elem_classes="buttons"):
        made["run"] = gr.Button("Sweep N", variant="primary", elem_id="sweep-run")
        made["stop"] = gr.Button("Stop", interactive=False, elem_id="sweep-stop")
    made["status"] = status_line(elem_id="sweep-status")
    made["progress"] = progress_bar(elem_id="sweep-progress")
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
    _html("<h2>In the paper, not measured here</h2>", elem_id="sweep-paper-title")
    with gr.Row(elem_classes="sweep-panels"):
        _plot("sweep-paper-tau", paper_panel(known, "tau"))
        with gr.Column(min_width=240):
            _html(_about_paper(known), elem_id="sweep-paper")
        _plot("sweep-paper-speed", paper_panel(known, "speed_up"))


def _about_paper(known: Paper) -> str:
    stops = ", ".join(map(str, known.by_tli))
    return (
        f"<p>The authors’ own figures for N = {stops}: {escape(known.target)}, "
        f"{escape(known.settings)}, the mean of {len(known.sets)} sets as printed. Another model, "
        "another machine and other texts than here, so compare the shapes, not the numbers: τ "
        "rises with N, speed is level and then falls.</p>"
        f"<p><small>{escape(known.source['paper'])}. Its machine is not stated, and in its table "
        "the GSM8K cells repeat those of MT-bench; the means include them.</small></p>"
    )


def _html(value: str, **kwargs: Any) -> gr.HTML:
    return gr.HTML(value, apply_default_css=False, elem_classes="sweep-words", **kwargs)


def _plot(name: str, figure: Any = None, visible: bool = True) -> gr.Plot:
    with gr.Column(min_width=240):
        return gr.Plot(
            figure, show_label=False, container=False, elem_id=name, elem_classes="sweep-plot",
            visible=visible,
        )  # fmt: skip


def wire(demo: gr.Blocks, tab: Tli, shared: Shared) -> None:
    """Connect the tab's components."""
    ended = connect(
        shared.engine, shared.visit, tab.run, tab.stop, partial(_run, shared.engine),
        [tab.prompt, tab.length, tab.repeats, tab.trees, tab.auto, shared.target],
        [tab.status, tab.progress, *tab.results], cost=partial(_tokens, shared.engine),
    )  # fmt: skip
    show_results(ended, "sweep-results")
    enter_presses(tab.prompt, "sweep-run")
    shared_ones = [tab.length, tab.repeats, tab.trees, tab.auto]
    wire_share(tab.share, tab.status, _link, [shared.target, tab.prompt, *shared_ones])

    def from_link(request: gr.Request) -> tuple[Any, ...]:  # in partials gradio sees no annotations
        return _from_link(shared.engine, request)

    load_address(demo, from_link, [tab.status, *shared_ones], "sweep-run")
    gr.on(
        [demo.load, tab.focus.change, shared.target.change], partial(_draw, shared.engine),
        [tab.focus, shared.target], tab.drawing, concurrency_limit=None,
        trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip


def _link(
    target: str, prompt: str, tokens: int, repeats: int, trees: str, auto: bool
) -> tuple[Any, str]:
    """These settings as a query string: (status, query)."""
    given = {"tokens": tokens, "repeats": repeats, "trees": trees, "auto": int(auto)}
    return address_of(ID, {"target": target, "prompt": prompt, **given})


def _from_link(engine: Engine, request: gr.Request) -> tuple[Any, ...]:
    """Settings of the page's address: status, tokens, repeats, trees, auto N."""
    given, wrong = settings_of(named(ID, request))
    wrong += wrong_target(engine, given)
    if not 8 <= given.get("tokens", 8) <= LONGEST:
        wrong.append(f"tokens must be a number from 8 to {LONGEST}")
        del given["tokens"]
    if given.get("trees", "own") not in ("own", "same"):
        wrong.append("trees must be one of own, same")
        del given["trees"]
    names = ("tokens", "repeats", "trees", "auto")
    if "auto" in given:
        given["auto"] = bool(given["auto"])
    return complaint(wrong), *(given.get(name, gr.skip()) for name in names)


def _draw(engine: Engine, tli: int, target: str) -> Iterator[str]:
    """The drawing, with the target's own number of layers as soon as that is known."""
    if not engine.ready(target):
        yield drawing_html(int(tli))
    try:
        yield drawing_html(int(tli), len(engine.target(target).layers))
    except UserError:  # the line above the tabs says why there is no target
        yield drawing_html(int(tli))


def _plan(prompt: str, length: int, repeats: int, trees: str, auto: bool, target: str) -> Plan:
    return Plan(prompt, int(length), int(repeats), trees == "own", auto, target)


def _tokens(engine: Engine, visit: Visit, *values: Any) -> int:
    """How many tokens a sweep with these inputs decodes at most."""
    del visit
    return tokens_swept(engine, _plan(*values))


def _run(
    engine: Engine, visit: Visit, should_stop: Callable[[], bool], prompt: str, length: int,
    repeats: int, trees: str, auto: bool, target: str,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """One sweep: (status, progress, *results), again and again."""
    made = Sweep(_plan(prompt, length, repeats, trees, auto, target))
    nothing = (gr.skip(),) * len(fields(Results))
    said: Any = say("One run after the other; the methods take turns.")
    try:
        for step in sweep(engine, made, should_stop):
            yield said, progress(step.words, step.share), *nothing
            said = gr.skip()
    except Exception:
        yield gr.skip(), progress(), *nothing
        raise
    rows = rows_of(made.traces)
    yield say(summary(made, rows), "done"), progress(), *(_shown(made, rows) or nothing)


def summary(made: Sweep, rows: Sequence[Row]) -> str:
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


def _shown(made: Sweep, rows: Sequence[Row]) -> tuple[Any, ...] | None:
    """Values for the results; None where there is nothing to show."""
    if not any(row.fixed for row in rows):
        return None
    said = "".join(f"<p><b>{escape(lead)}</b>{escape(rest)}</p>" for lead, rest in sentences(rows))
    shared = f"One for all: {SAME_TREE}."
    tree = "Each N has the tree measured for it." if made.plan.own_trees else shared
    auto = next((row for row in rows if row.method == AUTO), None)
    drawn = strip([tli or 0 for tli in auto.choices], made.stops) if auto else None
    return (
        gr.update(visible=True), said, *(panel(rows, key) for key in PANELS),
        table_html(rows, tree), gr.update(value=drawn, visible=auto is not None),
        gr.update(value=_about_strip(auto), visible=auto is not None),
    )  # fmt: skip


def _about_strip(auto: Row | None) -> str:
    return f"<p>{len(auto.choices)} cycles of its newest run.</p>{ABOUT_AUTO}" if auto else ""
