"""Lines of plain words on the page: what runs here, how a run ended, what went wrong."""

from __future__ import annotations

from typing import Any

import gradio as gr

from demo.common.theme import script

SORRY = "Something went wrong in the program, not in what you wrote; the details are in its log."

STOPPING = "Stopping."


def status_line(text: str = "", kind: str = "note", **kwargs: Any) -> gr.HTML:
    """A line whose element stays, so that a screen reader announces each new text once."""
    return gr.HTML(
        say(text, kind),
        html_template='<p class="status-line" role="status" aria-live="polite"></p>',
        js_on_load=script("common/static/status.js"),
        apply_default_css=False,
        **kwargs,
    )


def say(text: str, kind: str = "note") -> dict[str, str]:
    """The value of a status line. Kinds: note, load, wait, done, error."""
    return {"kind": kind, "text": text}
