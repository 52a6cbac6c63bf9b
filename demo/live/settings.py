"""Settings of the Live tab: a choice, a preset, the page's address, a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from demo.common.methods import family, label, tli_of
from demo.common.status import say
from demo.common.tokens.view import PACES
from demo.engine import Engine, Request
from demo.share import address_of, complaint, settings_of, wrong_target
from demo.tli.stops import stops_html
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.loading.names import method_name

PACE_NAMES = ("Full speed", "Slow motion", "Step by step")  # of PACES
Preset = Callable[[Engine, str], tuple[str, int, str]]


@dataclass(frozen=True)
class Settings:
    """The values of the controls, in the order in which events send them; a link carries them."""

    target: str
    prompt: str
    method: str
    tli: int
    auto_tree: bool
    depth: int
    breadth: int
    budget: int
    tokens: int
    temperature: float
    top_p: float
    seed: Any
    pace: str

    @property
    def request(self) -> Request:
        """What they ask for. UserError for numbers that are none."""
        return Request(
            self.prompt,
            method_name(self.method, int(self.tli)),
            self.tokens,  # raw text: a message names it if it is not an integer
            AUTO if self.auto_tree else TreeSettings(self.depth, self.breadth, self.budget),
            Sampling(self.temperature, self.top_p, seed=self.seed),
            self.target,
        )


NAMES = [one.name for one in fields(Settings)]
TREE = ("depth", "breadth", "budget")


def choose(engine: Engine, target: str, kind: str, tli: int) -> tuple[Any, ...]:
    """Follow a choice of drafter: whether N matters, which stops there are, its measured tree."""
    method = method_name(kind, int(tli))
    tree = engine.tree(method, target)
    stops = stops_html(engine, method, target)
    return gr.update(interactive=kind == "moa"), stops, tree.depth, tree.breadth, tree.budget


def teaching(engine: Engine, target: str) -> tuple[str, int, str]:
    """Method, length and pace to explain with: N = 1 is the paper's."""
    there = engine.methods(target)
    return "moa-n1" if "moa-n1" in there else engine.default(target), 64, "slow"


def speed(engine: Engine, target: str) -> tuple[str, int, str]:
    """Method, length and pace to be impressed by."""
    return engine.default(target), 256, "full"


def preset(engine: Engine, which: Preset, target: str) -> tuple[Any, ...]:
    """Status, method, N, its stops, its measured tree, that it is not used, length and pace."""
    method, tokens, pace = which(engine, target)
    kind, tli = family(method), tli_of(method)
    slider, *known = choose(engine, target, kind, tli)
    words = (
        f"Set: {label(method)} with trees sized automatically, at "
        f"most {tokens} new tokens, {PACE_NAMES[PACES.index(pace)].lower()}. Press Run to see it."
    )
    slider = gr.update(value=tli, interactive=slider["interactive"])
    return say(words, "done"), kind, slider, *known, True, tokens, pace


def from_address(engine: Engine, tabs: Sequence[str], request: gr.Request) -> tuple[Any, ...]:
    """(status, stops, settings but the target) from the page's address; what cannot be used is
    named, and the rest is.

    tabs  of the page. An address that names none of them means the first, the one set here
    """
    tab = request.query_params.get("tab", tabs[0])
    given, wrong = settings_of({} if tab in tabs[1:] else request.query_params)
    if tab not in tabs:
        wrong.append(f"tab must be one of {', '.join(tabs)}")
    wrong += wrong_target(engine, given)
    method = given.pop("method", None)
    if method is not None and (refusal := engine.refusal(method, called=str)):
        wrong.append(refusal)
        method = None
    if given.get("pace", PACES[0]) not in PACES:
        wrong.append(f"pace must be one of {', '.join(PACES)}")
        del given["pace"]
    stops, shaped = gr.skip(), set(TREE) & set(given)
    if method is not None:
        kind, tli = family(method), tli_of(method)
        slider, stops, *shape = choose(engine, "", kind, tli)
        slider["value"] = tli
        given = {**dict(zip(TREE, shape, strict=True)), "method": kind, "tli": slider, **given}
    if "auto_tree" in given:
        given["auto_tree"] = bool(given["auto_tree"])
    elif shaped:  # a link from before trees were sized automatically
        given["auto_tree"] = False
    return complaint(wrong), stops, *(given.get(name, gr.skip()) for name in NAMES[1:])


def link(tab: str, *values: Any) -> tuple[Any, str]:
    """The settings as a query string."""
    given = dict(zip(NAMES, values, strict=True))
    given["method"] = method_name(given["method"], int(given["tli"]))
    given["auto_tree"] = int(given["auto_tree"])
    return address_of(tab, given)
