"""Where a tab asks for a prompt."""

from __future__ import annotations

from typing import Any

import gradio as gr

from demo.examples import EXAMPLES


def prompt_box(prefix: str, verb: str, **kwargs: Any) -> gr.Textbox:
    """A box with the first example in it, and all examples below; ids begin with the prefix.

    verb  what Shift + Enter does, as in "compares"; see `enter_presses`
    """
    box = gr.Textbox(
        label="Prompt", value=next(iter(EXAMPLES.values())), elem_id=f"{prefix}-prompt",
        placeholder=f"Write a prompt. Shift + Enter {verb}.", **kwargs,
    )  # fmt: skip
    gr.Examples(
        [[text] for text in EXAMPLES.values()], box, label="Examples",
        example_labels=list(EXAMPLES), examples_per_page=len(EXAMPLES),
        api_visibility="private", elem_id=f"{prefix}-examples",
    )  # fmt: skip
    return box


def enter_presses(box: gr.Textbox, button: str) -> None:
    """Let Shift + Enter press a button: one that is disabled then holds the keys back as well.

    button  its elem_id
    """
    box.submit(None, js=f"() => {{ document.querySelector('#{button}').click(); }}")
