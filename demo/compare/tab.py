"""The tab Side by side: one prompt, several methods, measured in turns and replayed as a race."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import gradio as gr

from demo.common.links import settings_of
from demo.common.methods import label, ordered
from demo.common.progress import progress, progress_bar
from demo.common.prompt import enter_presses, prompt_box
from demo.common.shared import Shared
from demo.common.status import say, status_line
from demo.common.turns import MOST_REPEATS, WARM_UP, Progress
from demo.compare.results import Results, build_results, filled, values
from demo.compare.rows import rows, write_csv
from demo.compare.run import FEWEST, MOST, Comparison, Plan, compare, usual
from demo.engine import MOST_NEW_TOKENS, Engine
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
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling

ID, TITLE = "compare", "Side by side"
TREES = {
    "auto": "Each cycle’s sized automatically",
    "own": "Each method’s own measured tree",
    "same": "One tree for all",
}
SAME = TreeSettings()
SETTINGS = {  # lowest, highest, start, step, label
    "length": (2, MOST_NEW_TOKENS, 128, 1, "New tokens at most"),
    "temperature": (0, 2, 0, 0.05, "Temperature: 0 is greedy"),
    "depth": (1, 12, SAME.depth, 1, "Depth: drafted levels"),
    "breadth": (1, 16, SAME.breadth, 1, "Breadth: nodes per level"),
    "budget": (1, 64, SAME.budget, 1, "Budget: drafted nodes kept"),
}
SHARED = {  # what a link carries, and the field that holds it; the prompt and the target besides
    "methods": "methods", "repeats": "repeats", "trees": "trees", "tokens": "length",
    "temperature": "temperature", "seed": "seed",
    "depth": "depth", "breadth": "breadth", "budget": "budget",
}  # fmt: skip
HOW = (
    f"Each method first decodes {WARM_UP} tokens to warm up; that is not counted. Then they run "
    "one after the other, in turns, so that each has the machine to itself."
)

WHY_N = (
    "MoA begins here with N=1, as in the paper’s headline figures against EAGLE-2; Live begins "
    "with N=0, which drafts fastest. Tick both to see what N changes."
)


@dataclass(frozen=True)
class Compare:
    """The components that events connect."""

    prompt: gr.Textbox
    methods: gr.CheckboxGroup
    repeats: gr.Slider
    trees: gr.Radio
    one_tree: gr.Row
    length: gr.Slider
    temperature: gr.Slider
    seed: gr.Number
    depth: gr.Slider
    breadth: gr.Slider
    budget: gr.Slider
    run: gr.Button
    stop: gr.Button
    results: Results
    share: Share


def build(shared: Shared) -> Compare:
    """Lay the tab out; nothing is connected yet."""
    with gr.Row(equal_height=False, elem_classes="controls"):
        with gr.Column(scale=3, min_width=320):
            prompt = prompt_box("compare-", "compares", lines=5, max_lines=12)
            with gr.Row(elem_classes="buttons"):
                run = gr.Button("Compare", variant="primary", elem_id="compare-run")
                stop = gr.Button("Stop", interactive=False, elem_id="compare-stop")
            status = status_line(HOW, elem_id="compare-status")
            bar = progress_bar(elem_id="compare-progress")
        with gr.Column(scale=2, min_width=280):
            chosen = _choices(shared.engine)
    chosen |= _settings()
    results = build_results(status, bar)
    share = share_fold("compare-")
    return Compare(prompt=prompt, run=run, stop=stop, **chosen, results=results, share=share)


def _choices(engine: Engine) -> dict[str, Any]:
    """What to compare, and how often."""
    return {
        "methods": gr.CheckboxGroup(
            _named(engine), value=usual(engine), elem_id="compare-methods",
            label=f"Methods: {FEWEST} to {MOST}", info=_why(engine),
        ),
        "repeats": gr.Slider(
            1, MOST_REPEATS, 3, step=1, precision=0, label="Repeats of each", buttons=[],
            elem_id="compare-repeats",
        ),
    }  # fmt: skip


def _why(engine: Engine) -> str | None:
    """Why another N is chosen here than in Live, where that is so."""
    if engine.default() == "moa-n0" and "moa-n1" in usual(engine):
        return WHY_N
    return None


def _settings() -> dict[str, Any]:
    """The folded settings: length, sampling, and the draft trees."""
    with gr.Accordion("Draft tree, sampling and length", open=False, elem_id="compare-settings"):
        with gr.Row():
            made: dict[str, Any] = {name: _slider(name) for name in ("length", "temperature")}
            made["seed"] = gr.Number(0, label="Seed", elem_id="compare-seed", min_width=220)
        made["trees"] = gr.Radio(
            [(words, name) for name, words in TREES.items()], value="auto", label="Draft tree",
            elem_id="compare-trees",
        )  # fmt: skip
        with gr.Row(visible=False) as made["one_tree"]:
            made |= {name: _slider(name) for name in ("depth", "breadth", "budget")}
    return made


def _slider(name: str) -> gr.Slider:
    low, high, start, step, words = SETTINGS[name]
    return gr.Slider(
        low, high, start, step=step, label=words, elem_id=f"compare-{name}", buttons=[],
        min_width=220, precision=None if name == "temperature" else 0,
    )  # fmt: skip


def _named(engine: Engine, target: str = "") -> list[tuple[str, str]]:
    return [(label(name), name) for name in engine.methods(target)]


def wire(demo: gr.Blocks, tab: Compare, shared: Shared) -> None:
    """Connect the tab's components."""
    engine = shared.engine
    shared.target.change(
        partial(_of_target, engine), shared.target, tab.methods, queue=False, **PRIVATE
    )
    tab.trees.change(
        lambda trees: gr.update(visible=trees == "same"), tab.trees, tab.one_tree,
        queue=False, **PRIVATE,
    )  # fmt: skip
    inputs = [
        tab.results.shown, tab.prompt, shared.target, tab.methods, tab.repeats, tab.trees,
        tab.depth, tab.breadth, tab.budget, tab.length, tab.temperature, tab.seed,
    ]  # fmt: skip
    outputs = [getattr(tab.results, entry.name) for entry in fields(Results)]
    ended = connect(
        engine, shared.visit, tab.run, tab.stop, partial(_run, engine), inputs, outputs,
        cost=_tokens,
    )  # fmt: skip
    show_results(ended, "compare-results")
    enter_presses(tab.prompt, "compare-run")
    shared_ones = [getattr(tab, field) for field in SHARED.values()]
    wire_share(tab.share, tab.results.status, _link, [shared.target, tab.prompt, *shared_ones])

    def from_link(request: gr.Request) -> tuple[Any, ...]:  # in partials gradio sees no annotations
        return _from_address(engine, named(ID, request))

    load_address(demo, from_link, [tab.results.status, *shared_ones], "compare-run")


def _of_target(engine: Engine, target: str) -> dict[str, Any]:
    return gr.update(choices=_named(engine, target), value=usual(engine, target))


def _link(target: str, prompt: str, *values: Any) -> tuple[Any, str]:
    """These settings as a query string: (status, query)."""
    given = dict(zip(SHARED, values, strict=True)) | {"target": target, "prompt": prompt}
    given["methods"] = ",".join(ordered(given["methods"]))
    if given["trees"] != "same":
        given |= dict.fromkeys(("depth", "breadth", "budget"))
    return address_of(ID, given)


def _from_address(engine: Engine, query: Mapping[str, str]) -> tuple[Any, ...]:
    """Settings of an address: status, then a value for each of SHARED."""
    given, wrong = settings_of(query)
    wrong += wrong_target(engine, given)
    asked = [name for name in given.pop("methods", "").split(",") if name]
    wrong += [reason for name in asked if (reason := engine.refusal(name, called=str))]
    if known := [name for name in asked if not engine.refusal(name)]:
        given["methods"] = known
    if given.get("trees", "auto") not in TREES:
        wrong.append(f"trees must be one of {', '.join(TREES)}")
        del given["trees"]
    return complaint(wrong), *(given.get(name, gr.skip()) for name in SHARED)


def _plan(
    prompt: str, target: str, methods: list[str], repeats: int, trees: str, depth: int,
    breadth: int, budget: int, length: int, temperature: float, seed: Any,
) -> Plan:  # fmt: skip
    shaped = TreeSettings(int(depth), int(breadth), int(budget)) if trees == "same" else None
    tree = AUTO if trees == "auto" else shaped
    return Plan(
        prompt, tuple(ordered(methods)), int(repeats), int(length),
        Sampling(temperature, seed=seed), tree, target,
    )  # fmt: skip


def _tokens(visit: Visit, shown: bool, *asked: Any) -> int:
    """How many tokens a comparison with these inputs decodes at most."""
    del visit, shown
    return _plan(*asked).tokens


def _run(
    engine: Engine, visit: Visit, should_stop: Callable[[], bool], shown: bool, *asked: Any
) -> Iterator[tuple[Any, ...]]:
    """One comparison: values for `Results`, again and again. asked: as `_plan` takes it."""
    comparison = Comparison(_plan(*asked))
    try:
        yield from _progress(compare(engine, comparison, should_stop))
    except Exception:
        yield values(bar=progress(), box=gr.update(visible=shown))
        raise
    found = rows(comparison)
    if not found:
        words = "Stopped before a counted run was finished: there is nothing new to show."
        yield values(status=say(words, "done"), bar=progress(), box=gr.update(visible=shown))
        return
    yield filled(comparison, found, write_csv(found, comparison))


def _progress(steps: Iterator[Progress]) -> Iterator[tuple[Any, ...]]:
    """How far it is. Earlier results go, since a replay would take time from the runs."""
    first = {
        "status": say("One run after the other; the methods take turns."),
        "box": gr.update(visible=False),
    }
    for step in steps:
        yield values(bar=progress(step.words, step.share), **first)
        first = {}
