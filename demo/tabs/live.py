"""The Live tab: a prompt, decoded before your eyes, token by token and cycle by cycle."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.charts import accepted_lengths
from demo.examples import EXAMPLES
from demo.session import METHODS, MOST_NEW_TOKENS, Engine, Request, Run, Visit
from demo.status import SORRY, say, status_line
from demo.tli import STOPS, stops_html
from demo.trace_view import ENDINGS, Feed, paced, trace_view
from moa_core.errors import UserError
from moa_core.trace import Trace
from moa_core.tree import TreeSettings
from moa_core.verify import Sampling

log = logging.getLogger(__name__)

TREE_NOTE = "Choosing a drafter sets the tree to the one measured for it."
PRIVATE = {"api_visibility": "private", "show_progress": "hidden"}
SETTINGS = {  # lowest, highest, step, label
    "depth": (1, 12, 1, "Depth: drafted levels"),
    "breadth": (1, 16, 1, "Breadth: nodes per level"),
    "budget": (1, 64, 1, "Budget: drafted nodes kept"),
    "length": (1, MOST_NEW_TOKENS, 1, "New tokens at most"),
    "temperature": (0, 2, 0.05, "Temperature: 0 is greedy"),
    "top_p": (0.05, 1, 0.05, "Top-p: 1 is off"),
}


@dataclass(frozen=True)
class Live:
    """The components that events connect."""

    visit: gr.State
    prompt: gr.Textbox
    method: gr.Radio
    tli: gr.Slider
    stops: gr.HTML
    run: gr.Button
    stop: gr.Button
    length: gr.Slider
    depth: gr.Slider
    breadth: gr.Slider
    budget: gr.Slider
    temperature: gr.Slider
    top_p: gr.Slider
    seed: gr.Number
    status: gr.HTML
    view: gr.HTML
    chart: gr.Plot
    raw: gr.Textbox


def build(engine: Engine) -> Live:
    """Lay the tab out; nothing is connected yet."""
    method, tli = engine.default
    with gr.Row(equal_height=False, elem_classes="controls"):
        with gr.Column(scale=3, min_width=320):
            prompt = gr.Textbox(
                label="Prompt",
                value=EXAMPLES["Story from its opening"],
                lines=5,
                max_lines=12,
                elem_id="prompt",
                placeholder="Write a prompt. Shift + Enter runs it.",
            )
            gr.Examples(
                [[text] for text in EXAMPLES.values()],
                prompt,
                label="Examples",
                example_labels=list(EXAMPLES),
                examples_per_page=len(EXAMPLES),
                api_visibility="private",
                elem_id="examples",
            )
            with gr.Row(elem_classes="buttons"):
                run = gr.Button("Run", variant="primary", elem_id="run")
                stop = gr.Button("Stop", interactive=False, elem_id="stop")
            status = status_line(elem_id="status")
        with gr.Column(scale=2, min_width=280):
            choice = gr.Radio(
                [(METHODS[name], name) for name in engine.methods],
                value=method,
                label="Method",
                elem_id="method",
            )
            with gr.Group(elem_classes="tli"):
                slider = gr.Slider(
                    STOPS[0], STOPS[-1], tli, step=1, precision=0,
                    label="TLI: target layers reused, N", elem_id="tli", buttons=[],
                    interactive=method == "moa",
                )  # fmt: skip
                stops = gr.HTML(
                    stops_html(engine, method, tli), elem_id="tli-stops", apply_default_css=False
                )
    settings = _settings(engine.tree(method, tli))
    view = trace_view(elem_id="view")
    chart = gr.Plot(visible=False, show_label=False, container=False, elem_id="chart")
    with gr.Accordion("Raw prompt", open=False, elem_id="raw-prompt"):
        raw = gr.Textbox(
            label="What the target reads, template and special tokens included",
            lines=3, max_lines=14, interactive=False, buttons=["copy"], elem_id="raw",
        )  # fmt: skip
    return Live(
        gr.State(), prompt, choice, slider, stops, run, stop, **settings,
        status=status, view=view, chart=chart, raw=raw,
    )  # fmt: skip


def _settings(tree: TreeSettings) -> dict[str, gr.Slider | gr.Number]:
    """The folded settings: the tree's shape, the sampling and the length."""
    start = {
        "depth": tree.depth,
        "breadth": tree.breadth,
        "budget": tree.budget,
        "length": 128,
        "temperature": 0,
        "top_p": 1,
    }
    with gr.Accordion("Draft tree, sampling and length", open=False, elem_id="settings"):
        gr.HTML(f"<p>{TREE_NOTE}</p>", apply_default_css=False)
        with gr.Row():
            made = {
                name: gr.Slider(
                    low, high, start[name], step=step, label=label, elem_id=name, buttons=[],
                    min_width=220,
                )
                for name, (low, high, step, label) in SETTINGS.items()
            }  # fmt: skip
            made["seed"] = gr.Number(0, precision=0, label="Seed", elem_id="seed", min_width=220)
    return made


def wire(demo: gr.Blocks, live: Live, engine: Engine) -> None:
    """Connect the tab's components."""
    demo.load(Visit, None, live.visit, **PRIVATE)
    drafter = [live.method, live.tli]
    gr.on(
        [live.method.change, live.tli.change],
        partial(_choose, engine),
        drafter,
        [live.tli, live.stops, live.depth, live.breadth, live.budget],
        queue=False,
        trigger_mode="always_last",
        **PRIVATE,
    )
    begun = live.run.click(
        partial(_begin, engine),
        live.visit,
        [live.visit, live.run, live.stop, live.status],
        queue=False,
        **PRIVATE,
    )
    ran = begun.then(
        partial(_run, engine),
        [
            live.visit, live.prompt, *drafter, live.length, live.depth, live.breadth, live.budget,
            live.temperature, live.top_p, live.seed,
        ],
        [live.status, live.view, live.chart, live.raw],
        concurrency_id="model",
        concurrency_limit=1,
        **PRIVATE,
    )  # fmt: skip
    ran.then(_end, None, [live.run, live.stop], queue=False, **PRIVATE)
    live.stop.click(_stop, live.visit, live.stop, queue=False, **PRIVATE)
    # Through the button, so that a disabled button holds the keys back as well.
    live.prompt.submit(None, js="() => { document.querySelector('#run').click(); }")


def _choose(engine: Engine, method: str, tli: int) -> tuple[Any, ...]:
    """Follow a choice of drafter: whether N matters, which stops there are, its default tree."""
    tree = engine.tree(method, int(tli))
    return (
        gr.update(interactive=method == "moa"),
        stops_html(engine, method, int(tli)),
        tree.depth,
        tree.breadth,
        tree.budget,
    )


def _begin(engine: Engine, visit: Visit | None) -> tuple[Any, ...]:
    """Before the run has its turn: the buttons change, and waiting is explained."""
    visit = visit or Visit()
    visit.begin()
    status = say("")
    if engine.busy:
        status = say("Another run is going on here; yours begins when it ends.", "wait")
    elif not engine.ready:
        status = say("The models are still loading; your run begins when they are there.", "wait")
    return visit, gr.update(interactive=False), gr.update(interactive=True), status


def _stop(visit: Visit) -> dict[str, Any]:
    """Ask the run to end after its cycle; what was done stays on the page."""
    visit.stop()
    return gr.update(interactive=False)


def _end() -> tuple[Any, ...]:
    return gr.update(interactive=True), gr.update(interactive=False)


def _run(
    engine: Engine, visit: Visit, prompt: str, method: str, tli: int, length: int, depth: int,
    breadth: int, budget: int, temperature: float, top_p: float, seed: int | None,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """One run: (status, view, chart, raw prompt), again and again. Never raises."""
    number = visit.number
    skip = gr.skip()
    try:
        if visit.ended(number):
            yield say("Stopped before it began.", "done"), skip, skip, skip
            return
        request = Request(
            prompt, method, int(tli), int(length),
            TreeSettings(int(depth), int(breadth), int(budget)),
            Sampling(temperature, top_p, seed=seed or 0),
        )  # fmt: skip
        yield from _show(engine.prepare(request, lambda: visit.ended(number)))
    except UserError as error:
        yield say(str(error), "error"), skip, skip, skip
    except Exception:
        log.exception("a run failed")
        yield say(SORRY, "error"), skip, skip, skip


def _show(run: Run) -> Iterator[tuple[Any, ...]]:
    """Feed the page with a run as it happens, then its summary and chart."""
    tokenizer = run.target.tokenizer
    feed = Feed(token_hex(4), tokenizer, run.trace)
    raw = tokenizer.decode(run.prompt_ids, skip_special_tokens=False)
    skip, hidden = gr.skip(), gr.update(visible=False)
    begun = False
    try:
        for batch in paced(run.events):
            value = feed.add(batch)
            yield (skip, value, skip, skip) if begun else (say(""), value, hidden, raw)
            begun = True
    except Exception:
        yield skip, feed.broken(), skip, skip
        raise
    yield say(summary(run.trace), "done"), skip, chart(run.trace), skip


def chart(trace: Trace) -> Any:
    """The finished run's chart, if it had any cycle."""
    if not trace.accepted_lengths:
        return gr.skip()
    return gr.update(value=accepted_lengths(trace), visible=True)


def summary(trace: Trace) -> str:
    """A finished run in one sentence."""
    parts = [f"{len(trace.output_ids)} tokens in {trace.target_calls} target calls"]
    if trace.tau is not None:
        parts.append(f"τ {trace.tau:.2f}")
    if trace.tokens_per_second is not None:
        parts.append(f"{trace.tokens_per_second:.1f} tokens per second")
    return f"{', '.join(parts)}. Ended: {ENDINGS.get(trace.reason, trace.reason)}."
