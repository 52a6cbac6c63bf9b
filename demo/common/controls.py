"""The prompt box, and settings that several tabs share: their bounds and a control for each."""

from typing import Any

import gradio as gr

from demo.common.elements import call, words
from demo.common.measure import MOST_REPEATS
from demo.engine import FIXED_TREE, MOST_NEW_TOKENS
from demo.session import PRIVATE

NEW_TOKENS = 128
NUMBERS: dict[str, tuple[float, float, float, float, str]] = {
    # lowest, highest, start, step, label
    "tokens": (1, MOST_NEW_TOKENS, NEW_TOKENS, 1, "Maximum new tokens"),
    "depth": (1, 12, FIXED_TREE.depth, 1, "Depth: drafted levels"),
    "breadth": (1, 16, FIXED_TREE.breadth, 1, "Breadth: nodes per level"),
    "budget": (1, 64, FIXED_TREE.budget, 1, "Budget: drafted nodes kept"),
    "temperature": (0, 2, 0, 0.05, "Temperature (0 = greedy)"),
    "top_p": (0.05, 1, 1, 0.05, "Top-p (1 = off)"),
    "seed": (0, 2**31 - 1, 0, 1, "Seed"),
    "repeats": (1, MOST_REPEATS, 3, 1, "Repeats per method"),
    "auto_tree": (0, 1, 1, 1, "Size trees automatically, for speed"),
}
TREE_NOTE = (
    "τ depends on the draft tree, so compare it only at the same fixed tree. Automatic: the tree "
    "keeps growing as long as that is expected to pay off, by measured times, so the number of "
    "calls may change from run to run."
)
SHAPE = ("depth", "breadth", "budget")
PROMPT = "common/static/prompt.js"
# What visitors type: first one on which MoA leads EAGLE-2 by about as much as on the benchmark; at
# the end, where guesses fail.
EXAMPLES = {
    "Email": "Write a short email to my landlord: the heating has not worked since Monday.",
    "Explain": "Explain photosynthesis in three sentences.",
    "A fact": "What is the capital of France?",
    "Story": "Write a short story about a lighthouse keeper and a lost whale.",
    "Python": "Write a Python function that returns the largest number in a list.",
    "Summary": (
        "Summarize this in one sentence: Honeybees tell each other where food is by dancing. A bee "
        "that has found flowers returns to the hive and runs in a figure of eight. The angle of "
        "the middle line shows the direction, measured from the sun, and the length of the dance "
        "shows the distance. Other bees follow the dancer in the dark and then fly there."
    ),
    "Sum": (
        "Anna has 24 apples. She buys 13 more and gives 9 away. How many apples does she have now? "
        "Think step by step."
    ),
    "List": "List ten things to pack for a week of camping.",
    "German": "Erzähle mir auf Deutsch, was du heute gemacht hast.",
    "Nonsense": "Florp the zibbet until quorn, then snaggle: vex, mimsy, tove?",
}


def control(name: str, prefix: str = "", **changes: Any) -> Any:
    """The control of a setting; its id starts with the prefix. changes: override the table."""
    low, high, start, step, label = NUMBERS[name]
    given = {"value": start, "label": label, "elem_id": prefix + name, "min_width": 200, **changes}
    if name == "seed":
        return gr.Number(**given)
    return gr.Slider(
        **{"minimum": low, "maximum": high, "step": step, "buttons": [], **given},
        precision=0 if step >= 1 else None,
    )


def controls(*names: str, prefix: str = "", **changes: Any) -> dict[str, Any]:
    with gr.Row():
        return {name: control(name, prefix, **changes) for name in names}


def folded(prefix: str, *names: str) -> dict[str, Any]:
    """The folded settings: automatic trees, the tree's shape, and the named ones."""
    with gr.Accordion("Draft tree, sampling and length", open=False, elem_id=f"{prefix}settings"):
        words(f"<p>{TREE_NOTE}</p>", elem_classes="note")
        *_, start, _, label = NUMBERS["auto_tree"]
        auto = gr.Checkbox(bool(start), label=label, elem_id=f"{prefix}auto_tree")
        shape = controls(*SHAPE, prefix=prefix, interactive=not start)
        auto.change(
            lambda on: [gr.update(interactive=not on)] * len(SHAPE), auto, list(shape.values()),
            queue=False, api_visibility="private", show_progress="hidden",
        )  # fmt: skip
        return {"auto_tree": auto, **shape, **controls(*names, prefix=prefix)}


def ask(
    prefix: str, verb: str, go: str = "Run", stops: bool = False
) -> tuple[gr.Textbox, gr.Button, gr.Button]:
    """A prompt box, its button and Stop in one row, the examples below; ids start with the prefix.

    verb   what Shift + Enter does, as in "compares": it presses the button, unless that is disabled
    stops  whether Stop can be pressed from the start
    """
    texts = list(EXAMPLES.values())
    with gr.Row(elem_classes="ask"):
        box = gr.Textbox(
            label="Prompt", value=texts[0], elem_id=f"{prefix}prompt", lines=2, max_lines=2,
            placeholder=f"Write a prompt. Shift + Enter {verb}.", scale=9,
        )  # fmt: skip
        examples = gr.Dataset(
            label="Examples", components=[box], samples=[[text] for text in texts], type="index",
            sample_labels=list(EXAMPLES), samples_per_page=len(texts),
            elem_id=f"{prefix}examples",
        )  # fmt: skip
        run = gr.Button(go, variant="primary", elem_id=f"{prefix}run", min_width=110)
        stop = gr.Button("Stop", interactive=stops, elem_id=f"{prefix}stop", min_width=80)
    box.submit(None, js=f"() => {{ document.querySelector('#{prefix}run').click(); }}")
    # In the browser. gr.Examples asks the server, and loses the text if the visitor leaves the
    # tab before the answer.
    examples.click(None, examples, box, js=call(PROMPT, "chosen", texts), **PRIVATE)
    return box, run, stop


def carry(demo: gr.Blocks, tab: gr.Tab, box: gr.Textbox) -> None:
    """Keep a tab's box at the page's newest prompt. Runs in the browser; sends nothing."""
    box.change(None, box, js=call(PROMPT, "keep", box.elem_id), **PRIVATE)
    tab.select(None, box, box, js=call(PROMPT, "newest"), **PRIVATE)
    demo.load(None, box, box, js=call(PROMPT, "first"), **PRIVATE)
