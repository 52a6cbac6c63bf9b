"""Sharing a tab's settings: a button that makes a link of them, and an address that brings them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from demo.common.links import LONGEST, query_of
from demo.common.status import say
from demo.common.theme import script
from demo.engine import Engine
from demo.session import PRIVATE


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
    """The same, folded, for a tab where nothing else is saved."""
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
        return say(f"A link carries at most {LONGEST:,} characters of prompt.", "error"), ""
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
        return ["the target is not taken from an address: choose it at the top"]
    return [f"target must be {engine.first}"]


def complaint(wrong: Sequence[str]) -> Any:
    """The value of a status line: what could not be used of an address, if there is any."""
    reasons = "; ".join(reason.rstrip(".") for reason in wrong)
    words = f"Not all of the address could be used: {reasons}."
    return say(words, "error") if wrong else gr.skip()


def load_address(
    demo: gr.Blocks, read: Callable[..., Any], outputs: Sequence[Any], button: str
) -> None:
    """Take a tab's settings from the page's address, when it is opened.

    read    from the request to values for the outputs
    button  elem_id of what is pressed next, where a link of the lesson led here
    """
    demo.load(read, None, list(outputs), queue=False, **PRIVATE).then(
        None,
        None,
        None,
        js=f"() => {{ {script('common/static/press_once.js')}('{button}'); }}",
        **PRIVATE,
    )
