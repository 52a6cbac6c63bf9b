"""Settings that several tabs share: one table of bounds, and a control for each."""

from __future__ import annotations

from typing import Any

import gradio as gr

from demo.common.measure import MOST_REPEATS
from demo.common.status import words
from demo.engine import FIXED_TREE, MOST_NEW_TOKENS

NEW_TOKENS = 256  # the bundled target ends most stories before
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
    "auto_tree": (0, 1, 0, 1, "Size trees automatically, for speed"),
}
TREE_NOTE = (
    "τ depends on the draft tree, so compare it only at the same fixed tree. Automatic: the tree "
    "keeps growing as long as that is expected to pay off."
)
SHAPE = ("depth", "breadth", "budget")


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


def controls(*names: str, prefix: str = "") -> dict[str, Any]:
    with gr.Row():
        return {name: control(name, prefix) for name in names}


def folded(prefix: str, *names: str) -> dict[str, Any]:
    """The folded settings: automatic trees, the tree's shape, and the named ones."""
    with gr.Accordion("Draft tree, sampling and length", open=False, elem_id=f"{prefix}settings"):
        words(f"<p>{TREE_NOTE}</p>", elem_classes="note")
        auto = gr.Checkbox(False, label=NUMBERS["auto_tree"][-1], elem_id=f"{prefix}auto_tree")
        shape = controls(*SHAPE, prefix=prefix)
        auto.change(
            lambda on: [gr.update(interactive=not on)] * len(SHAPE), auto, list(shape.values()),
            queue=False, api_visibility="private", show_progress="hidden",
        )  # fmt: skip
        return {"auto_tree": auto, **shape, **controls(*names, prefix=prefix)}
