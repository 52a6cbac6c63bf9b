"""The Benchmarks tab: recorded results, and apart from them the paper's."""

from __future__ import annotations

import logging
from typing import Any

import gradio as gr

from demo.common.status import words
from demo.common.theme import plot
from demo.results.charts import CHARTS
from demo.results.learning import learning, learning_charts, learning_note
from demo.results.table import NOTES, headline, paper_section, table
from demo.session import PRIVATE, Shared
from moa_core.bench.records import Recording, recordings
from moa_core.errors import UserError

log = logging.getLogger(__name__)

ID, TITLE = "benchmarks", "Benchmarks"
FIRST = "Best tree"  # the recording that answers which method is fastest
ALL = "all kinds"


def build(demo: gr.Blocks, shared: Shared) -> None:
    """Lay the tab out: what the first recording says, two charts, then all else."""
    del demo, shared  # it needs no model and no address
    there = kept()
    if not there:
        words("<p>There are no recordings here.</p>", elem_id="bench-empty")
        return
    first = there[0]
    said = words(headline(first), elem_id="bench-claims")
    with gr.Accordion("Choose a recording and kind of prompt", open=False, elem_id="bench-filters"):
        choice = gr.Radio([one.name for one in there], value=first.name, label="Recording",
                          elem_id="bench-recording")  # fmt: skip
        kind = gr.Dropdown(**_kinds(first, ALL), label="Kind of prompt", filterable=False,
                           elem_id="bench-kind")  # fmt: skip
    with gr.Row(elem_id="bench-charts"):
        plots = [_plot(first, name) for name in ("tau", "speed")]
    with gr.Accordion("More charts, all numbers", open=False, elem_id="bench-more"):
        with gr.Row(elem_id="bench-more-charts"):
            plots += [_plot(first, name) for name in list(CHARTS)[2:]]
        frame = gr.Dataframe(
            table(first), interactive=False, label="The numbers in these charts", max_height=420,
            elem_id="bench-table", buttons=["copy", "fullscreen"],
        )  # fmt: skip
    gr.on(
        [choice.input, kind.input], updates, [choice, kind], [said, kind, *plots, frame],
        queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    if trained := learning():
        _learning(trained)
    words(paper_section(), elem_id="bench-paper")


def _plot(recording: Recording, name: str) -> gr.Plot:
    with gr.Column(min_width=320, elem_classes="bench-chart"):
        figure = CHARTS[name](recording, None)
        made = plot(figure, visible=figure is not None, min_width=280, elem_id=f"bench-{name}")
        words(f"<p>{NOTES[name]}</p>", elem_classes="note")
    return made


def _learning(trained: dict[str, Any]) -> None:
    with gr.Accordion("How fast each method learns", open=False, elem_id="bench-learning"):
        with gr.Row():
            for at, figure in enumerate(learning_charts(trained)):
                with gr.Column(min_width=320, elem_classes="bench-chart"):
                    plot(figure, elem_id=f"learning-{at}")
        words(learning_note(trained), elem_classes="note")


def kept() -> list[Recording]:
    """Our own recordings, the first one to be shown first; none where their files are damaged."""
    try:
        return sorted(recordings(), key=lambda one: one.name != FIRST)
    except UserError as error:
        log.warning("no recordings: %s", error)
        return []


def updates(name: str, kind: str) -> tuple[Any, ...]:
    """Headline, kinds of prompt, charts and table of a recording."""
    found = next((one for one in kept() if one.name == name), None)
    if found is None:
        raise gr.Error("There is no such recording.")
    kinds = _kinds(found, kind)
    one_kind = None if kinds["value"] == ALL else kinds["value"]
    figures = [draw(found, one_kind) for draw in CHARTS.values()]
    return (
        headline(found),
        gr.update(**kinds),
        *(gr.update(value=one, visible=one is not None) for one in figures),
        table(found),
    )


def _kinds(recording: Recording, chosen: str) -> dict[str, Any]:
    """What can be chosen, and what is: all kinds where this recording lacks the one before."""
    return {
        "choices": [ALL, *recording.kinds],
        "value": chosen if chosen in recording.kinds else ALL,
    }
