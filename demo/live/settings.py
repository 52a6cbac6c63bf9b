"""The stage's settings: controls, the page's address and links."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from demo.common.methods import family, tli_of
from demo.engine import Engine, Request
from demo.share import address_of, brought, values_of
from demo.tli.stops import slider_bounds, stops_html
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.names import method_name
from moa_core.errors import UserError


@dataclass(frozen=True)
class Settings:
    """The values of the controls, in the order in which events send them."""

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

    @property
    def request(self) -> Request:
        """The request for these settings. UserError for invalid numbers."""
        return Request(
            self.prompt,
            method_name(self.method, int(self.tli)),
            self.tokens,  # raw text: a message names it if it is not an integer
            AUTO if self.auto_tree else TreeSettings(self.depth, self.breadth, self.budget),
            Sampling(self.temperature, self.top_p, seed=self.seed),
            self.target,
        )


NAMES = [one.name for one in fields(Settings)]


def settings_from(given: Any) -> Settings:
    """Settings as the page sends them. UserError if they are not."""
    try:
        made = Settings(**given)
        texts = made.target, made.prompt, made.method
        if all(isinstance(text, str) for text in texts) and int(made.tli) >= 0:
            return made
        raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise UserError("These settings are not the page’s: reload it.") from None


def choose(engine: Engine, target: str, kind: str, tli: int) -> tuple[Any, ...]:
    """Updates for a chosen drafter: whether N applies, and what it means."""
    method = method_name(kind, int(tli))
    return gr.update(**slider_bounds(engine, method, target)), stops_html(engine, method, target)


def from_address(engine: Engine, tabs: Sequence[str], request: gr.Request) -> tuple[Any, ...]:
    """(status, stops, settings except the target) from the page's address. The status names the
    parts that cannot be used; the rest is used.

    tabs  names of the page's tabs; an address without one opens the first, which is this tab
    """
    tab = request.query_params.get("tab", tabs[0])
    given, wrong = brought(engine, {} if tab in tabs[1:] else request.query_params)
    if tab not in tabs:
        wrong.insert(0, f"tab must be one of {', '.join(tabs)}")
    method, stops = given.pop("method", None), gr.skip()
    if method is not None and (refusal := engine.refusal(method, called=str)):
        wrong.append(refusal)
    elif method is not None:
        kind, tli = family(method), tli_of(method)
        slider, stops = choose(engine, "", kind, tli)
        slider["value"] = tli
        given = {**given, "method": kind, "tli": slider}
    if "auto_tree" in given:
        given["auto_tree"] = bool(given["auto_tree"])
    status, *values = values_of(given, wrong, NAMES[1:])
    return status, stops, *values


def link(tab: str, *values: Any) -> tuple[Any, str]:
    given = dict(zip(NAMES, values, strict=True))
    given["method"] = method_name(given["method"], int(given["tli"]))
    given["auto_tree"] = int(given["auto_tree"])
    return address_of(tab, given)
