"""The Benchmarks tab: what was recorded, by us and by a visitor, and apart from it the paper's."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import gradio as gr

from demo.common.charts import label
from demo.common.downloads import csv_text, download
from demo.common.status import SORRY, say, status_line, words
from demo.results.charts import CHARTS, View, shown
from demo.results.records import (
    ALL,
    Chosen,
    Recordings,
    beside,
    first_choice,
    kept,
    kinds_of,
    matching,
    methods_of,
    nothing,
    opened,
)
from demo.results.table import claims, paper_section, source, table
from demo.session import PRIVATE, Shared
from moa_core.errors import UserError

log = logging.getLogger(__name__)

ID, TITLE = "benchmarks", "Benchmarks"
ABOUT = (
    "Every number here was recorded earlier, by <code>python -m moa_core bench</code> on the "
    "machine named under each chart; nothing is measured while you look. Methods that begin "
    "with hf- are transformers’ own generation. To measure here and now, use the other tabs."
)
HINT = (
    "Made one on your own machine? Open its <code>summary.json</code> or <code>results.json</code> "
    "and it appears next to ours. Only you can see it."
)
FILTERS = {  # in the order of `Chosen`
    "recordings": ("Recording", gr.CheckboxGroup),
    "machine": ("Machine", gr.Dropdown),
    "precision": ("Precision", gr.Dropdown),
    "kind": ("Kind of prompt", gr.Radio),
    "methods": ("Methods", gr.CheckboxGroup),
}


@dataclass(frozen=True)
class Benchmarks:
    """The components that events connect."""

    there: gr.State
    filters: dict[str, Any]
    upload: gr.UploadButton
    status: gr.HTML
    results: list[Any]


def build(shared: Shared) -> Benchmarks:
    """Lay the tab out, with the recording of the most methods in it."""
    del shared  # needs no model
    there = kept()
    chosen = first_choice(there)
    words(f"<p>{ABOUT}</p>", elem_classes="bench-words")
    with gr.Group(elem_id="bench-filters"):
        filters = _filters(there, chosen)
    with gr.Row(elem_id="bench-open", equal_height=True):
        upload = gr.UploadButton(
            "Open a recording", size="md", scale=0, min_width=190, elem_id="bench-upload"
        )
        words(f"<p>{HINT}</p>", elem_classes="bench-words")
    status = status_line(elem_id="bench-status")
    empty, claimed, *drawn, rows, file = updates(there, chosen)
    results = [
        words(empty.pop("value"), **empty, elem_id="bench-empty"),
        words(claimed, elem_id="bench-claims"),
    ]
    plots, sources = [], []
    with gr.Row(elem_id="bench-charts"):
        for at, name in enumerate(CHARTS):
            with gr.Column(min_width=320, elem_classes="bench-chart"):
                plots.append(
                    gr.Plot(**drawn[at], show_label=False, container=False, min_width=280,
                            elem_id=f"bench-{name}")
                )  # fmt: skip
                sources.append(words(drawn[at + len(CHARTS)], elem_id=f"bench-{name}-source"))
    frame = gr.Dataframe(
        **rows, interactive=False, label="The numbers in these charts", max_height=420,
        elem_id="bench-table", buttons=["copy", "fullscreen"],
    )  # fmt: skip
    save = gr.DownloadButton(
        "Download as CSV", **file, size="md", scale=0, min_width=190, elem_id="bench-csv"
    )
    words(paper_section(), elem_id="bench-paper")
    results += [*plots, *sources, frame, save]
    return Benchmarks(gr.State(there), filters, upload, status, results)


def _filters(there: Recordings, chosen: Chosen) -> dict[str, Any]:
    start = _choices(there, chosen)

    def one(name: str, **more: Any) -> Any:
        title, kind = FILTERS[name]
        return kind(label=title, elem_id=f"bench-{name}", **start[name], **more)

    made = {"recordings": one("recordings")}
    with gr.Row():
        for name in ("machine", "precision"):
            made[name] = one(name, filterable=False, min_width=200)
    return made | {"kind": one("kind"), "methods": one("methods", show_select_all=True)}


def wire(demo: gr.Blocks, tab: Benchmarks, shared: Shared) -> None:
    """Connect the tab's components."""
    del demo, shared
    filters = list(tab.filters.values())
    outputs = [tab.status, tab.there, *filters, *tab.results]

    def follow(there: Recordings, *values: Any) -> tuple[Any, ...]:
        return tuple(
            gr.update(**one) if isinstance(one, dict) else one
            for one in updates(there, Chosen(*values))
        )

    def add(path: str, there: Recordings, *values: Any) -> tuple[Any, ...]:
        skipped = (gr.skip(),) * (len(outputs) - 1)
        try:
            added = opened(path, there)
        except UserError as error:
            return say(str(error), "error"), *skipped
        except Exception:
            log.exception("a recording could not be opened")
            return say(SORRY, "error"), *skipped
        there, chosen = beside(there, Chosen(*values), added)
        said = f"Opened {added.name}: {len(added.methods)} methods, recorded {added.date}."
        choices = [gr.update(**choice) for choice in _choices(there, chosen).values()]
        return say(said, "done"), there, *choices, *follow(there, *vars(chosen).values())

    gr.on(
        [component.input for component in filters], follow, [tab.there, *filters], tab.results,
        queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    tab.upload.upload(add, [tab.upload, tab.there, *filters], outputs, queue=False, **PRIVATE)


def _choices(there: Recordings, chosen: Chosen) -> dict[str, dict[str, Any]]:
    """Choices and value of each filter."""
    choices = {
        "recordings": [one.name for one in there],
        "machine": [("every machine", ALL), *dict.fromkeys(one.machine for one in there)],
        "precision": [("every precision", ALL), *dict.fromkeys(one.precision for one in there)],
        "kind": [("all together", ALL), *((kind[:24], kind) for kind in kinds_of(there))],
        "methods": [(_plain(name), name) for name in methods_of(there)],
    }
    return {name: {"choices": one, "value": getattr(chosen, name)} for name, one in choices.items()}


def _plain(name: str) -> str:
    """A method's name for a box's label, which gradio escapes by itself."""
    return shown(name) if shown(name) != label(name, 22) else name[:22]


def updates(there: Recordings, chosen: Chosen) -> tuple[Any, ...]:
    """Everything under the filters: sentence, claims, plots, sources, table, file; a dictionary
    says a component's properties."""
    found = matching(there, chosen)
    kind = None if chosen.kind == ALL else chosen.kind
    view = View(tuple(found), tuple(chosen.methods), kind)
    rows = table(view)
    if not len(rows):
        sentence = {"value": f"<p>{nothing(there, chosen, found)}</p>", "visible": True}
        plots = [{"value": None, "visible": False}] * len(CHARTS)
        hidden = {"value": rows, "visible": False}, {"value": None, "visible": False}
        return sentence, "", *plots, *[""] * len(CHARTS), *hidden
    charts = {name: draw(view) for name, draw in CHARTS.items()}
    return (
        {"value": "", "visible": False},
        claims(view),
        *({"value": one.figure, "visible": one.figure is not None} for one in charts.values()),
        *(source(view, name, chart) for name, chart in charts.items()),
        {"value": rows, "visible": True},
        {"value": str(download("benchmarks.csv", csv_text(rows))), "visible": True},
    )
