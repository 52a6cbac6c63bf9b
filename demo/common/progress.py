"""A bar with words: how far a longer piece of work is."""

from __future__ import annotations

from typing import Any

import gradio as gr

from demo.common.theme import script


def progress_bar(**kwargs: Any) -> gr.HTML:
    """Hidden until `progress` gives it words. Not announced: a status line tells start and end."""
    return gr.HTML(
        progress(),
        html_template='<p class="progress" hidden><progress max="1" value="0"></progress>'
        "<span></span></p>",
        js_on_load=script("common/static/progress.js"),
        apply_default_css=False,
        **kwargs,
    )


def progress(words: str = "", share: float = 0.0) -> dict[str, Any]:
    """The value of a bar. share: from 0 to 1; no words: the bar goes away."""
    return {"words": words, "share": round(share, 4)}
