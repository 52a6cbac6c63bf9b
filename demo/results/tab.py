"""The Benchmarks tab: what was recorded, by us and by a visitor, and apart from it the paper's."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from demo.common.charts import label
from demo.common.downloads import csv_text, download
from demo.common.shared import Shared
from demo.common.status import SORRY, say, status_line
from demo.results.charts import CHARTS, View, shown
from demo.results.records import (
    ALL,
    Chosen,
    Shelf,
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
from demo.session import PRIVATE
from moa_core.errors import UserError

log = logging.getLogger(__name__)

ID, TITLE = "benchmarks", "Benchmarks"
ABOUT = (
    "Every number here was recorded earlier, by <code>python -m moa_core bench</code> on the "
    "machine that stands under each chart; nothing is measured while you look. Methods that begin "
    "with hf- are transformers’ own generation. To measure here and now, use the other tabs."
)
HINT = (
    "Made one on your own machine? Open its <code>summary.json</code> or <code>results.json</code> "
    "and it stands beside ours. It stays with you: nobody else sees it."
)
FILTERS = {  # in the order in which events send them
    "recordings": ("Recording", gr.CheckboxGroup),
    "machine": ("Machine", gr.Dropdown),
    "precision": ("Precision", gr.Dropdown),
    "kind": ("Kind of prompt", gr.Radio),
    "methods": ("Methods", gr.CheckboxGroup),
}


@dataclass(frozen=True)
class Benchmarks:
    """The components that events connect."""

    shelf: gr.State
    filters: dict[str, Any]
    upload: gr.UploadButton
    status: gr.HTML
    empty: gr.HTML
    claims: gr.HTML
    plots: list[gr.Plot]
    sources: list[gr.HTML]
    table: gr.Dataframe
    download: gr.DownloadButton


@dataclass(frozen=True)
class Shown:
    """Everything under the filters."""

    sentence: str
    claims: str
    figures: dict[str, Any]
    sources: dict[str, str]
    rows: Any
    csv: str | None


def build(shared: Shared) -> Benchmarks:
    """Lay the tab out, with the recording of the most methods in it."""
    del shared  # needs no model
    shelf = kept()
    chosen = first_choice(shelf)
    _words(f"<p>{ABOUT}</p>", elem_classes="bench-words")
    with gr.Group(elem_id="bench-filters"):
        filters = _filters(shelf, chosen)
    with gr.Row(elem_id="bench-open", equal_height=True):
        upload = gr.UploadButton(
            "Open a recording", size="md", scale=0, min_width=190, elem_id="bench-upload"
        )
        _words(f"<p>{HINT}</p>", elem_classes="bench-words")
    status = status_line(elem_id="bench-status")
    now = _shown(shelf, chosen)
    empty = _words(now.sentence, elem_id="bench-empty", visible=bool(now.sentence))
    told = _words(now.claims, elem_id="bench-claims")
    with gr.Row(elem_id="bench-charts"):
        charts = [_chart(name, now) for name in CHARTS]
    rows = gr.Dataframe(
        now.rows, interactive=False, label="The numbers in these charts", max_height=420,
        elem_id="bench-table", buttons=["copy", "fullscreen"],
    )  # fmt: skip
    download = gr.DownloadButton(
        "Download as CSV", now.csv, size="md", scale=0, min_width=190, elem_id="bench-csv"
    )
    _words(paper_section(), elem_id="bench-paper")
    plots, sources = zip(*charts, strict=True)
    return Benchmarks(
        gr.State(shelf), filters, upload, status, empty, told, list(plots), list(sources), rows,
        download,
    )  # fmt: skip


def _words(text: str, **kwargs: Any) -> gr.HTML:
    """HTML of ours, in which everything from elsewhere is escaped."""
    return gr.HTML(text, apply_default_css=False, **kwargs)


def _chart(name: str, now: Shown) -> tuple[gr.Plot, gr.HTML]:
    """A chart, and under it where its numbers come from."""
    figure = now.figures.get(name)
    with gr.Column(min_width=320, elem_classes="bench-chart"):
        plot = gr.Plot(
            figure, show_label=False, container=False, min_width=280, visible=figure is not None,
            elem_id=f"bench-{name}",
        )  # fmt: skip
        return plot, _words(now.sources.get(name, ""), elem_id=f"bench-{name}-source")


def _filters(shelf: Shelf, chosen: Chosen) -> dict[str, Any]:
    start = _choices(shelf, chosen)

    def one(name: str, **more: Any) -> Any:
        title, kind = FILTERS[name]
        return kind(label=title, elem_id=f"bench-{name}", **start[name], **more)

    made = {"recordings": one("recordings")}
    with gr.Row():
        made |= {
            name: one(name, filterable=False, min_width=200) for name in ("machine", "precision")
        }
    made |= {"kind": one("kind"), "methods": one("methods", show_select_all=True)}
    return made


def wire(demo: gr.Blocks, tab: Benchmarks, shared: Shared) -> None:
    """Connect the tab's components."""
    del demo, shared
    filters = list(tab.filters.values())
    results = [tab.empty, tab.claims, *tab.plots, *tab.sources, tab.table, tab.download]
    outputs = [tab.status, tab.shelf, *filters, *results]
    gr.on(
        [component.input for component in filters], _filter, [tab.shelf, *filters], results,
        queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    tab.upload.upload(
        partial(_open, len(outputs)), [tab.upload, tab.shelf, *filters], outputs,
        queue=False, **PRIVATE,
    )  # fmt: skip


def _filter(shelf: Shelf, *values: Any) -> tuple[Any, ...]:
    """Follow a filter: (sentence, claims, plots, sources, table, file)."""
    return _updates(shelf, Chosen(*values))


def _open(count: int, path: str, shelf: Shelf, *values: Any) -> tuple[Any, ...]:
    """Show a visitor's file beside what is shown: (status, shelf, filters, then as above)."""
    try:
        added = opened(path, shelf)
    except UserError as error:
        return say(str(error), "error"), *(gr.skip(),) * (count - 1)
    except Exception:
        log.exception("a recording could not be opened")
        return say(SORRY, "error"), *(gr.skip(),) * (count - 1)
    shelf, chosen = beside(shelf, Chosen(*values), added)
    filters = [gr.update(**choice) for choice in _choices(shelf, chosen).values()]
    words = f"Opened {added.name}: {len(added.methods)} methods, recorded {added.date}."
    return say(words, "done"), shelf, *filters, *_updates(shelf, chosen)


def _choices(shelf: Shelf, chosen: Chosen) -> dict[str, dict[str, Any]]:
    """Choices and value of each filter."""
    machines = dict.fromkeys(one.machine for one in shelf)
    precisions = dict.fromkeys(one.precision for one in shelf)
    return {
        "recordings": {
            "choices": [one.name for one in shelf],
            "value": list(chosen.recordings),
        },
        "machine": {"choices": [("every machine", ALL), *machines], "value": chosen.machine},
        "precision": {
            "choices": [("every precision", ALL), *precisions], "value": chosen.precision,
        },
        "kind": {
            "choices": [("all together", ALL), *((kind[:24], kind) for kind in kinds_of(shelf))],
            "value": chosen.kind,
        },
        "methods": {
            "choices": [(_plain(name), name) for name in methods_of(shelf)],
            "value": list(chosen.methods),
        },
    }  # fmt: skip


def _plain(name: str) -> str:
    """A method's name for a box's label, which gradio escapes by itself."""
    return shown(name) if shown(name) != label(name, 22) else name[:22]


def _shown(shelf: Shelf, chosen: Chosen) -> Shown:
    there = matching(shelf, chosen)
    kind = None if chosen.kind == ALL else chosen.kind
    view = View(tuple(there), tuple(chosen.methods), kind)
    rows = table(view)
    if not len(rows):
        words = f"<p>{nothing(shelf, chosen, there)}</p>"
        return Shown(words, "", {}, {}, rows, None)
    charts = {name: draw(view) for name, draw in CHARTS.items()}
    sources = {name: source(view, name, chart) for name, chart in charts.items()}
    figures = {name: chart.figure for name, chart in charts.items() if chart.figure is not None}
    file = str(download("benchmarks.csv", csv_text(rows)))
    return Shown("", claims(view), figures, sources, rows, file)


def _updates(shelf: Shelf, chosen: Chosen) -> tuple[Any, ...]:
    """Everything under the filters."""
    now = _shown(shelf, chosen)
    return (
        gr.update(value=now.sentence, visible=bool(now.sentence)),
        now.claims,
        *(gr.update(value=now.figures.get(name), visible=name in now.figures) for name in CHARTS),
        *(now.sources.get(name, "") for name in CHARTS),
        gr.update(value=now.rows, visible=now.csv is not None),
        gr.update(value=now.csv, visible=now.csv is not None),
    )
