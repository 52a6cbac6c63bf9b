"""The tab Side by side: one prompt, several methods, measured in turns and replayed as a race."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import gradio as gr

from demo.common.controls import control, folded, prompt_box
from demo.common.elements import status_line
from demo.common.measure import WARM_UP
from demo.common.methods import label, ordered
from demo.compare.bench import results, run
from demo.compare.run import FEWEST, MOST, Comparison, Plan, usual
from demo.engine import Engine
from demo.session import PRIVATE, Shared, connect, show_results
from demo.share import address_of, brought, load_address, named, share_fold, values_of
from demo.worker import Stop
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling

ID, TITLE = "compare", "Side by side"
HOW = (
    "The methods take turns, so each has the machine to itself. Each first decodes "
    f"{WARM_UP} tokens as a warm-up, which is not counted."
)


@dataclass(frozen=True)
class Settings:
    """Values of the controls, in the order in which events send them."""

    prompt: str
    target: str
    methods: list[str]
    repeats: int
    auto_tree: bool
    tokens: int
    temperature: float
    seed: Any
    depth: int
    breadth: int
    budget: int

    @property
    def plan(self) -> Plan:
        shaped = TreeSettings(int(self.depth), int(self.breadth), int(self.budget))
        return Plan(
            self.prompt, tuple(ordered(self.methods)), int(self.repeats), int(self.tokens),
            Sampling(self.temperature, seed=self.seed), AUTO if self.auto_tree else shaped,
            self.target,
        )  # fmt: skip


NAMES = [one.name for one in fields(Settings)]
LINKED = NAMES[2:]  # what an address sets; all tabs share the prompt


def build(demo: gr.Blocks, shared: Shared) -> gr.Textbox:
    engine, made = shared.engine, {"target": shared.target}
    with gr.Row(equal_height=False, elem_classes="controls"):
        with gr.Column(scale=3, min_width=320):
            made["prompt"] = prompt_box("compare-", "compares", lines=2, max_lines=8)
            with gr.Row(elem_classes="buttons"):
                go = gr.Button("Compare", variant="primary", elem_id="compare-run")
                stop = gr.Button("Stop", interactive=False, elem_id="compare-stop")
            status = status_line(HOW, elem_id="compare-status")
        with gr.Column(scale=2, min_width=280):
            made["methods"] = gr.CheckboxGroup(
                _named(engine), value=usual(engine), elem_id="compare-methods",
                label=f"Methods: {FEWEST} to {MOST}",
            )  # fmt: skip
            made["repeats"] = control("repeats", "compare-")
    made |= folded("compare-", "tokens", "temperature", "seed")
    parts = {"status": status, **results()}
    own = [made[name] for name in NAMES]

    def work(stop: Stop, *given: Any) -> Iterator[Any]:
        for changed in run(engine, Comparison(plan=Settings(*given).plan), stop):
            yield tuple(changed.get(name, gr.skip()) for name in parts)

    ended = connect(shared, go, stop, work, own, list(parts.values()))
    show_results(ended, "compare-results")
    share_fold("compare-", status, address, own)
    linked = [made[name] for name in LINKED]
    load_address(demo, shared, ID, partial(from_address, engine), [status, *linked])

    def of_target(target: str) -> dict[str, Any]:
        return gr.update(choices=_named(engine, target), value=usual(engine, target))

    shared.target.change(of_target, shared.target, made["methods"], queue=False, **PRIVATE)
    return made["prompt"]


def _named(engine: Engine, target: str = "") -> list[tuple[str, str]]:
    return [(label(name), name) for name in engine.methods(target)]


def address(*values: Any) -> tuple[Any, str]:
    given = dict(zip(NAMES, values, strict=True))
    given |= {"methods": ",".join(ordered(given["methods"])), "auto_tree": int(given["auto_tree"])}
    return address_of(ID, given)


def from_address(engine: Engine, request: gr.Request) -> tuple[Any, ...]:
    """Settings of an address: status, then a value for each of LINKED."""
    given, wrong = brought(engine, named(ID, request))
    asked = [name for name in given.pop("methods", "").split(",") if name]
    wrong += [reason for name in asked if (reason := engine.refusal(name, called=str))]
    if known := [name for name in asked if not engine.refusal(name)]:
        given["methods"] = known
    return values_of(given, wrong, LINKED)
