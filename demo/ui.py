"""Assembles the page: the tabs first, then what connects them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

import gradio as gr

from demo.api import add_api
from demo.session import Engine
from demo.status import SORRY, say, status_line
from demo.tabs import live
from moa_core.errors import UserError

log = logging.getLogger(__name__)

TITLE = "Mixture of Attentions, live"
ABOUT = (
    "A small drafter guesses ahead, a large target checks every guess in one forward, and the text "
    "is exactly what the target would have written alone."
)


def build_demo(engine: Engine) -> gr.Blocks:
    """The whole page for one engine; loads no model."""
    with gr.Blocks(title=TITLE, analytics_enabled=False) as demo:
        gr.HTML(
            f"<header><h1>{TITLE}</h1><p>{ABOUT}</p></header>",
            apply_default_css=False,
            elem_id="header",
        )
        machine = status_line("Loading the models.", elem_id="machine")
        with gr.Tab("Live", id="live"):
            tab = live.build(engine)
        live.wire(demo, tab, engine)
        demo.load(partial(_machine, engine), None, machine, concurrency_limit=None, **live.PRIVATE)
        add_api(engine)
    return demo


def _machine(engine: Engine) -> Iterator[dict[str, str]]:
    """What runs here, as soon as that is known."""
    if not engine.ready:
        yield say("Loading the models.", "wait")
    try:
        yield say(engine.describe())
    except UserError as error:
        yield say(str(error), "error")
    except Exception:
        log.exception("the models did not load")
        yield say(SORRY, "error")
