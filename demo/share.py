"""Share a tab's settings: a button that makes a link, and reading the page's address."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from demo.common.controls import NUMBERS, SHAPE
from demo.common.elements import call, say
from demo.common.methods import ordered
from demo.engine import Engine
from demo.session import PRIVATE, Shared
from moa_core.drafters.names import method_name

Check = Callable[[Engine, dict[str, Any], list[str]], None]
# Browsers and chat programs cut the addresses of longer prompts.
LONGEST = 1500
TEXTS = ("target", "method", "methods", "link", "prompt")
OTHERS = ("tab", "class", "view", "deep_link")  # the page and gradio read these
FOREIGN = ("__", "utm_")  # prefixes of names that gradio, the Hub and campaigns add


def query_of(settings: Mapping[str, Any]) -> str:
    """Settings as a query string, without empty ones."""
    given = dict(settings)
    if "tli" in given:
        given["method"] = method_name(given["method"], int(given["tli"]))
    if "methods" in given:
        given["methods"] = ",".join(ordered(given["methods"]))
    if "auto_tree" in given:
        given["auto_tree"] = int(given["auto_tree"])
    known = {name: given.get(name) for name in (*TEXTS, *NUMBERS)}
    return urlencode({name: value for name, value in known.items() if value not in (None, "")})


def address_of(tab: str, settings: Mapping[str, Any]) -> tuple[Any, str]:
    """(status, query string) of a tab's settings; no query if the prompt is too long."""
    if len(settings.get("prompt") or "") > LONGEST:
        return say(f"A link holds at most {LONGEST:,} characters of prompt.", "error"), ""
    return say("The link is ready to copy.", "done"), f"?tab={tab}&{query_of(settings)}"


def share_box(
    prefix: str, tab: str, status: gr.HTML, settings: Mapping[str, Any], **fixed: str
) -> None:
    """A button that makes a link, and a box that shows it; ids start with the prefix.

    settings  of the tab: a component for each name
    fixed     settings without one
    """
    button = gr.Button("Make a link to these settings", elem_id=f"{prefix}share")
    link = gr.Textbox(
        label="Link", lines=2, interactive=False, buttons=["copy"], elem_id=f"{prefix}link"
    )

    def make(*values: Any) -> tuple[Any, str]:
        return address_of(tab, fixed | dict(zip(settings, values, strict=True)))

    button.click(make, [*settings.values()], [status, link], queue=False, **PRIVATE).success(
        None, link, link, js="query => query && location.origin + location.pathname + query"
    )


def share_fold(prefix: str, *given: Any, **fixed: str) -> None:
    with gr.Accordion("Share", open=False, elem_id=f"{prefix}share-fold"):
        share_box(prefix, *given, **fixed)


def settings_of(query: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The settings in an address, and a sentence for each part that cannot be used."""
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


def brought(engine: Engine, query: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The settings that this page takes, and a sentence for each part that cannot be used."""
    given, wrong = settings_of(query)
    if any(name in given for name in SHAPE):
        given.setdefault("auto_tree", 0)  # a link with a shape means that shape
    known = (*TEXTS, *NUMBERS, *OTHERS)
    if odd := [name[:40] for name in query if name not in known and not name.startswith(FOREIGN)]:
        wrong.append(f"no setting is named {', '.join(odd)}")
    asked = given.get("target", engine.first)
    if asked in engine.installed and asked != engine.first:
        wrong.append("an address cannot set the target: choose it at the top")
    elif asked != engine.first:
        wrong.append(f"target must be {engine.first}")
    return given, wrong


def from_address(
    shared: Shared, tab: str, names: Sequence[str], check: Check, query: Mapping[str, str]
) -> tuple[Any, ...]:
    """(status, a value for each name) from the page's address, if it is for this tab. The status
    names the parts that cannot be used; the rest is used.

    check  from the engine, settings and reasons: drops settings that this tab cannot use, and
           says why
    """
    engine, tabs = shared.engine, shared.tabs
    asked = query.get("tab", tabs[0])  # an address without one opens the first
    mine = tab == (asked if asked in tabs else tabs[0])
    given, wrong = brought(engine, query if mine else {})
    if mine and asked not in tabs:
        wrong.insert(0, f"tab must be one of {', '.join(tabs)}")
    check(engine, given, wrong)
    reasons = "; ".join(reason.rstrip(".") for reason in wrong)
    words = f"Part of the address was not used: {reasons}."
    status = say(words, "error") if wrong else gr.skip()
    return status, *(given.get(name, gr.skip()) for name in names)


def load_address(
    shared: Shared, tab: str, status: gr.HTML, settings: Mapping[str, Any], check: Check
) -> None:
    """Read a tab's settings from the page's address when the page opens, and when a link was
    followed, which may also press a button. check: see `from_address`."""

    def taken(request: gr.Request) -> Any:
        return from_address(shared, tab, [*settings], check, request.query_params)

    for when in (shared.page.load, shared.header.follow):
        made = when(taken, None, [status, *settings.values()], queue=False, **PRIVATE)
        press_named(made.then, tab)


def press_named(when: Callable[..., Any], tab: str) -> None:
    """Press the button of this tab that a link named."""
    when(None, None, None, js=call("common/static/page.js", "followed", tab), **PRIVATE)
