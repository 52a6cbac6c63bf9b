"""Settings of the Live tab that come from elsewhere: a choice, a preset, the page's address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from demo.common.links import settings_of
from demo.common.methods import family, label, tli_of
from demo.common.status import say
from demo.common.tokens.view import PACES
from demo.engine import Engine
from demo.share import address_of, complaint, wrong_target
from demo.tli.stops import stops_html
from moa_core.loading.installed import method_name

PACE_NAMES = ("Full speed", "Slow motion", "Step by step")  # of PACES
Preset = Callable[[Engine, str], tuple[str, int, str]]


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


def sized(auto: bool) -> tuple[Any, ...]:
    """The sliders of a fixed tree, which wait while trees are sized automatically."""
    return (gr.update(interactive=not auto),) * 3


def preset(engine: Engine, which: Preset, target: str) -> tuple[Any, ...]:
    """Set method, N, its stops, its measured tree and that it is not used, length and pace; and
    say so, in the status line."""
    method, tokens, pace = which(engine, target)
    kind, tli = family(method), tli_of(method)
    slider, *known = choose(engine, target, kind, tli)
    words = (
        f"Set: {label(method)} with trees sized automatically, at "
        f"most {tokens} new tokens, {PACE_NAMES[PACES.index(pace)].lower()}. Press Run to see it."
    )
    slider = gr.update(value=tli, interactive=slider["interactive"])
    return say(words, "done"), kind, slider, *known, True, tokens, pace


def from_address(
    engine: Engine, tabs: Sequence[str], names: Sequence[str], request: gr.Request
) -> tuple[Any, ...]:
    """Settings from the page's address; what cannot be used is named, and the rest is.

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
    stops, shaped = gr.skip(), {"depth", "breadth", "budget"} & set(given)
    if method is not None:
        kind, tli = family(method), tli_of(method)
        slider, stops, depth, breadth, budget = choose(engine, "", kind, tli)
        slider["value"] = tli
        tree = {"depth": depth, "breadth": breadth, "budget": budget}
        given = {**tree, "method": kind, "tli": slider, **given}
    if "auto_tree" in given:
        given["auto_tree"] = bool(given["auto_tree"])
    elif shaped:  # a link from before trees were sized automatically
        given["auto_tree"] = False
    return complaint(wrong), stops, *(given.get(name, gr.skip()) for name in names)


def link(tab: str, names: Sequence[str], target: str, *values: Any) -> tuple[Any, Any]:
    """The settings as a query string."""
    given = dict(zip(names, values, strict=True)) | {"target": target}
    given["method"] = method_name(given["method"], int(given["tli"]))
    if "auto_tree" in given:
        given["auto_tree"] = int(given["auto_tree"])
    return address_of(tab, given)
