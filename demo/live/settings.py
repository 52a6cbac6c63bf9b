"""The stage's settings: as the page sends them, and from the page's address."""

from typing import Any

import gradio as gr

from demo.common.methods import family, tli_of
from demo.engine import Engine, Request
from demo.tli.stops import slider_bounds, stops_html
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.names import method_name
from moa_core.errors import UserError

# The controls, in the order in which events send them.
NAMES = (
    "target", "prompt", "method", "tli", "auto_tree", "depth", "breadth", "budget", "tokens",
    "temperature", "top_p", "seed",
)  # fmt: skip


def request_from(given: Any) -> Request:
    """The request for settings as the page sends them. UserError if they are not, or for invalid
    numbers."""
    try:
        if {*given} != {*NAMES}:
            raise TypeError
        target, prompt, method, tli, auto, *shape, tokens, temperature, top_p, seed = (
            given[name] for name in NAMES
        )
        if not all(isinstance(text, str) for text in (target, prompt, method)) or int(tli) < 0:
            raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise UserError("These settings are not the page’s: reload it.") from None
    tree = AUTO if auto else TreeSettings(*shape)
    sampling = Sampling(temperature, top_p, seed=seed)
    # Raw tokens: a message names them if they are no whole number.
    return Request(prompt, method_name(method, int(tli)), tokens, tree, sampling, target)


def choose(engine: Engine, target: str, kind: str, tli: int, before: int) -> tuple[Any, ...]:
    """Updates for a chosen drafter: whether N applies, and what it means; then N itself.

    An N without a drafter becomes the nearest one that has one, of two the farther from the N
    before: so keys move it both ways.
    """
    given = near = int(tli)
    if kind == "moa" and (stops := engine.stops(target)):
        near = min(stops, key=lambda stop: (abs(stop - given), -abs(stop - before)))
    method, moved = method_name(kind, near), {"value": near} if near != given else {}
    bounds = slider_bounds(engine, method, target)
    return gr.update(**bounds, **moved), stops_html(engine, method, target), near


def check(engine: Engine, given: dict[str, Any], wrong: list[str]) -> None:
    """An address's method, as family and N, if it can run."""
    if (method := given.pop("method", None)) is not None:
        if refusal := engine.refusal(method, called=str):
            wrong.append(refusal)
        else:
            given |= {"method": family(method), "tli": tli_of(method)}
    if "auto_tree" in given:
        given["auto_tree"] = bool(given["auto_tree"])
