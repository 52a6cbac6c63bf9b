"""Sharing a tab's settings: a button that makes a link of them, and an address that brings them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from demo.common.controls import NUMBERS
from demo.common.status import say
from demo.engine import Engine
from demo.session import PRIVATE

# Longer prompts make addresses that browsers and chats cut.
LONGEST = 1500
TEXTS = ("target", "method", "methods", "link", "prompt")


def query_of(settings: Mapping[str, Any]) -> str:
    """Settings as a query string; those that are empty are left out."""
    known = {name: settings.get(name) for name in (*TEXTS, *NUMBERS)}
    return urlencode({name: value for name, value in known.items() if value not in (None, "")})


def settings_of(query: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """What an address sets, and a sentence for each part of it that cannot be used."""
    found: dict[str, Any] = {
        name: query[name] for name in TEXTS if len(query.get(name, "")) in range(1, 50_001)
    }
    wrong = []
    for name, (low, high, _, step, _) in NUMBERS.items():
        if name not in query:
            continue
        try:
            value = int(query[name]) if step == 1 else float(query[name])
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            wrong.append(f"{name} must be a number from {low:g} to {high:g}")
        else:
            found[name] = value
    return found, wrong


@dataclass(frozen=True)
class Share:
    """The button, and where the link appears."""

    button: gr.Button
    link: gr.Textbox


def share_box(prefix: str = "") -> Share:
    """Both, to be laid out where this is called; ids begin with the prefix."""
    button = gr.Button("Make a link to these settings", elem_id=f"{prefix}share")
    link = gr.Textbox(
        label="Link", lines=2, interactive=False, buttons=["copy"], elem_id=f"{prefix}link"
    )
    return Share(button, link)


def share_fold(prefix: str) -> Share:
    with gr.Accordion("Share", open=False, elem_id=f"{prefix}share-fold"):
        return share_box(prefix)


def wire_share(
    share: Share, status: gr.HTML, make: Callable[..., tuple[Any, str]], inputs: Sequence[Any]
) -> None:
    """Let the button make a link. make: from the inputs' values to (status, query string)."""
    share.button.click(
        make, list(inputs), [status, share.link], queue=False, **PRIVATE
    ).success(
        None, share.link, share.link,
        js="query => query && location.origin + location.pathname + query",
    )  # fmt: skip


def address_of(tab: str, settings: Mapping[str, Any]) -> tuple[Any, str]:
    """(status, query string) of a tab's settings; no query where the prompt is too long for one."""
    if len(settings.get("prompt") or "") > LONGEST:
        return say(f"A link holds at most {LONGEST:,} characters of prompt.", "error"), ""
    return say("The link is ready to copy.", "done"), f"?tab={tab}&{query_of(settings)}"


def named(tab: str, request: gr.Request) -> Mapping[str, str]:
    """What the page's address says for a tab; nothing where it is for another one."""
    return request.query_params if request.query_params.get("tab") == tab else {}


def wrong_target(engine: Engine, given: Mapping[str, Any]) -> list[str]:
    """A sentence for a target of an address that is not the one a page begins with."""
    asked = given.get("target", engine.first)
    if asked == engine.first:
        return []
    if asked in engine.installed:
        return ["an address cannot set the target: choose it at the top"]
    return [f"target must be {engine.first}"]


def complaint(wrong: Sequence[str]) -> Any:
    """The value of a status line: what could not be used of an address, if there is any."""
    reasons = "; ".join(reason.rstrip(".") for reason in wrong)
    words = f"Part of the address was not used: {reasons}."
    return say(words, "error") if wrong else gr.skip()


def load_address(demo: gr.Blocks, read: Callable[..., Any], outputs: Sequence[Any]) -> None:
    """Take a tab's settings from the page's address, when it is opened. read: from the request to
    values for the outputs."""

    def taken(request: gr.Request) -> Any:  # gradio sees no annotations in partials
        return read(request)

    return demo.load(taken, None, list(outputs), queue=False, **PRIVATE)
