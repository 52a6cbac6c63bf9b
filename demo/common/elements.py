"""Elements that all tabs use: scripts, components, charts, status lines and progress bars."""

from __future__ import annotations

from typing import Any

import gradio as gr

from demo.common.theme import DEMO

SORRY = "Something went wrong in the program, not in what you wrote; the details are in its log."
STOPPING = "Stopping."


def script(*names: str) -> str:
    """A script that runs when its component mounts: files of `demo/`, in one scope."""
    return "\n".join((DEMO / name).read_text(encoding="utf-8") for name in names)


def component(template: str, *scripts: str, value: Any = "", **kwargs: Any) -> gr.HTML:
    """HTML with our scripts and without gradio's style."""
    return gr.HTML(
        value, html_template=template, js_on_load=script(*scripts), apply_default_css=False,
        **kwargs,
    )  # fmt: skip


def plot(figure: Any = None, **kwargs: Any) -> gr.Plot:
    return gr.Plot(figure, show_label=False, container=False, **kwargs)


def words(text: str, **kwargs: Any) -> gr.HTML:
    """Our own HTML; callers escape all other text."""
    return gr.HTML(text, apply_default_css=False, **kwargs)


def status_line(text: str = "", kind: str = "note", **kwargs: Any) -> gr.HTML:
    """A line whose element is kept, so that screen readers announce each new text once."""
    template = (
        '<p class="status-line" role="status" aria-live="polite"></p>'
        '<progress max="1" aria-label="progress" hidden></progress>'
    )
    return component(template, "common/static/status.js", value=say(text, kind), **kwargs)


def say(text: str, kind: str = "note", share: float | None = None) -> dict[str, Any]:
    """The value of a status line. Kinds: note, load, wait, done, error; share: done, 0 to 1."""
    return {"kind": kind, "text": text, **({} if share is None else {"share": round(share, 4)})}
