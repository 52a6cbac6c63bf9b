"""The tab Side by side: one prompt, several methods, measured in turns and replayed as a race."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from demo.common.controls import ask, control, folded
from demo.common.elements import call, status_line, words
from demo.common.methods import VANILLA, label, ordered
from demo.compare.bench import results, run
from demo.compare.run import FEWEST, MOST, Comparison, recorded_time, usual
from demo.engine import Engine, Request
from demo.results.tab import first
from demo.session import PRIVATE, Shared, connect, show_results
from demo.share import load_address, share_fold
from demo.worker import Stop
from moa_core.bench.records import Recording
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling

ID, TITLE = "compare", "Side by side"
ABOUT = (
    "MoA: this page’s drafter (N=0: it borrows no layers of the target). EAGLE-2: an older one, "
    "its rival in the MoA paper. Plain: no drafter."
)

# The controls, in the order in which events send them.
NAMES = (
    "prompt", "target", "methods", "repeats", "auto_tree", "tokens", "temperature", "seed",
    "depth", "breadth", "budget",
)  # fmt: skip
LINKED = NAMES[2:]  # what an address sets; all tabs share the prompt


def build(shared: Shared) -> gr.Textbox:
    engine, made = shared.engine, {"target": shared.target}
    there = {target: first(target) for target in engine.installed}
    words(f"<p>{ABOUT}</p>", elem_id="compare-intro")
    made["prompt"], go, stop = ask("compare-", "compares", "Compare")
    with gr.Row(equal_height=False, elem_id="compare-how"):
        with gr.Column(scale=3, min_width=300):
            made["methods"] = gr.CheckboxGroup(
                _named(engine), value=usual(engine), elem_id="compare-methods",
                label=f"Methods: {FEWEST} to {MOST}", info=_fastest(there[engine.first]),
            )  # fmt: skip
            gr.Checkbox(False, label="Show all methods", elem_id="compare-more")
        with gr.Column(scale=2, min_width=220):
            made["repeats"] = control("repeats", "compare-")
            plan = words("", elem_id="compare-plan", elem_classes="note")
        with gr.Column(scale=2, min_width=220):
            made |= folded("compare-", "tokens", "temperature", "seed")
    status = status_line(elem_id="compare-status")
    parts = {"status": status, **results()}
    made = {name: made[name] for name in NAMES}

    def work(stop: Stop, *given: Any) -> Iterator[Any]:
        for changed in run(engine, comparison_of(*given), stop):
            yield tuple(changed.get(name, gr.skip()) for name in parts)

    ended = connect(shared, go, stop, work, [*made.values()], [*parts.values()])
    show_results(ended, "compare-results")
    asked = {"js": call("compare/race.js", "asked"), **PRIVATE}
    made["prompt"].change(None, made["prompt"], None, **asked)
    share_fold("compare-", ID, status, made)
    linked = {name: made[name] for name in LINKED}
    load_address(shared, ID, status, linked, check)

    def of_target(target: str) -> dict[str, Any]:
        info = _fastest(there.get(target))
        return gr.update(choices=_named(engine, target), value=usual(engine, target), info=info)

    shared.target.change(of_target, shared.target, made["methods"], queue=False, **PRIVATE)
    planned = [made[name] for name in ("target", "methods", "repeats", "tokens")]

    def plan_of(target: str, methods: list[str], repeats: int, tokens: int) -> str:
        if not FEWEST <= len(methods) <= MOST:
            wrong = f"Choose {FEWEST} to {MOST} methods."
            return f'<p class="status-line" data-kind="error">{wrong}</p>'
        time = recorded_time(there.get(target), methods, repeats, tokens)
        told = f"{repeats * len(methods)} runs, in turns<span class='plan-time'>{time}</span>."
        return f"<p>{told}</p>"

    gr.on(
        [shared.page.load, *(one.change for one in planned)], plan_of, planned, plan,
        queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    return made["prompt"]


def _fastest(recorded: Recording | None) -> str | None:
    if not recorded:
        return None
    name = label(next(iter(recorded.methods))).replace("-", "\u2011")
    return f"Fastest in Benchmarks: {name} (show all methods)."


def _named(engine: Engine, target: str = "") -> list[tuple[str, str]]:
    """Every method; the usual ones come first, and style.css folds away those after the third."""
    named = [*usual(engine, target), *engine.methods(target)]
    return [(label(name), name) for name in dict.fromkeys(named)]


def comparison_of(
    prompt: str, target: str, methods: list[str], repeats: int, auto_tree: bool, tokens: int,
    temperature: float, seed: Any, *shape: int,
) -> Comparison:  # fmt: skip
    """The comparison for the controls' values, in the order of NAMES."""
    tree, sampling = AUTO if auto_tree else TreeSettings(*shape), Sampling(temperature, seed=seed)
    asked = Request(prompt, VANILLA, tokens, tree, sampling, target)
    return Comparison(asked=asked, methods=tuple(ordered(methods)), repeats=repeats)


def check(engine: Engine, given: dict[str, Any], wrong: list[str]) -> None:
    """The methods of an address, as far as they can run."""
    asked = [*dict.fromkeys(filter(None, given.pop("methods", "").split(",")))]  # each once
    wrong += [reason for name in asked if (reason := engine.refusal(name, called=str))]
    if known := [name for name in asked if not engine.refusal(name)]:
        given["methods"] = known
