"""The prompt box, with examples below. All tabs share one prompt."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from demo.common.theme import script
from demo.session import PRIVATE

ONE = script("common/static/prompt.js")
EXAMPLES = {  # one per strength of the bundled target, and one that it cannot answer
    "Story": "Tell me a story about a cat.",
    "Go on": "Carry on from here: Leo had a loose tooth, and he was proud of it.",
    "Story from words": "A story with lamp, garden and hedgehog, please.",
    "Sum": (
        "In the morning Anna has 24 apples. Anna buys 13 more and then gives 9 away. How many "
        "apples does Anna have now?"
    ),
    "Letters": "How many times is the letter a in the word banana?",
    "Python": (
        "Write a one-line Python function f(x) that takes a number x and multiplies by 3, then "
        "adds 12."
    ),
    "Sort": "Sort from smallest to largest: 83, 7, 41, 19",
    "Reverse": "Reverse this list: apple, river, cloud, stone",
    "Spanish": "Say 742 in Spanish.",
    "A question": "What is the capital of France?",
}


def prompt_box(prefix: str, verb: str, **kwargs: Any) -> gr.Textbox:
    """A prompt box with the examples below; ids start with the prefix.

    verb  what Shift + Enter does, as in "compares": it presses the button PREFIXrun, unless that
          is disabled
    """
    texts = list(EXAMPLES.values())
    box = gr.Textbox(
        label="Prompt", value=texts[0], elem_id=f"{prefix}prompt",
        placeholder=f"Write a prompt. Shift + Enter {verb}.", **kwargs,
    )  # fmt: skip
    box.submit(None, js=f"() => {{ document.querySelector('#{prefix}run').click(); }}")
    examples = gr.Dataset(
        label="Examples", components=[box], samples=[[text] for text in texts], type="index",
        sample_labels=list(EXAMPLES), samples_per_page=len(texts), elem_id=f"{prefix}examples",
    )  # fmt: skip
    # In the browser. gr.Examples asks the server, and loses the text if the visitor leaves the
    # tab before the answer.
    chosen = f"index => {ONE}.chosen({json.dumps(texts)}[index])"
    examples.click(None, examples, box, js=chosen, **PRIVATE)
    return box


def carry(demo: gr.Blocks, tab: gr.Tab, box: gr.Textbox) -> None:
    """Keep a tab's box at the page's newest prompt. Runs in the browser; sends nothing."""
    box.change(None, box, js=f"text => {ONE}.keep(text, '#{box.elem_id}')", **PRIVATE)
    tab.select(None, box, box, js=f"own => {ONE}.newest(own)", **PRIVATE)
    demo.load(None, box, box, js=f"own => {ONE}.first(own)", **PRIVATE)
