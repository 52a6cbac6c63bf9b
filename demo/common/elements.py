"""Elements that all tabs use: components, charts, status lines and progress bars."""

import json
from collections.abc import Sequence
from typing import Any

import gradio as gr

SORRY = "Something went wrong in the program, not in what you wrote; the details are in its log."
STOPPING = "Stopping."


def component(
    template: str, module: str, value: Any = "", mount: str = "mount",
    events: Sequence[str] = (), **kwargs: Any,
) -> gr.HTML:  # fmt: skip
    """HTML without gradio's style; a module's function `mount` gets it, its props and events.

    events  those that it triggers: gradio looks for their names in the script
    """
    given = f"{{ element, props, watch, trigger, events: {json.dumps(list(events))} }}"
    return gr.HTML(
        value, html_template=template, js_on_load=f"{loaded(module)}.{mount}({given}));",
        apply_default_css=False, **kwargs,
    )  # fmt: skip


def loaded(module: str) -> str:
    """JavaScript that imports a module of `demo/`, up to the use of `m`."""
    return f'import(new URL("demo/{module}", document.baseURI)).then((m) => m'


def call(module: str, name: str, *given: Any) -> str:
    """JavaScript for a gradio event: calls a module's function, after `given` with its inputs."""
    first = "".join(f"{json.dumps(one)}, " for one in given)
    return f"(...inputs) => {loaded(module)}.{name}({first}...inputs))"


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
    return component(template, "common/static/status.js", say(text, kind), **kwargs)


def say(text: str, kind: str = "note", share: float | None = None) -> dict[str, Any]:
    """The value of a status line. Kinds: note, load, wait, done, error; share: done, 0 to 1."""
    return {"kind": kind, "text": text, **({} if share is None else {"share": round(share, 4)})}
