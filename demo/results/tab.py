"""The Benchmarks tab: recorded results and, separately, the paper's."""

from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from demo.common.elements import plot, words
from demo.common.figures import kept, many
from demo.results import table as texts
from demo.results.charts import CHARTS, ahead, learning
from demo.session import PRIVATE, Shared, show_results
from moa_core.bench.records import FOLDER, Recording, Row, read, recordings
from moa_core.bench.run import processor

ID, TITLE = "benchmarks", "Benchmarks"
NOTHING = (
    "This page’s own target is not measured yet. Side by side measures it now, on your prompt."
)
FIRST = "Auto trees float32"  # the recording of the page's own settings


def build(_: Shared) -> None:
    """Build the tab: the first recording's conclusion, its charts, then the paper's figures."""
    there = ours()
    if not there:
        words(f"<p>{NOTHING}</p>", elem_id="bench-empty")
        words(texts.beside(), elem_id="bench-paper")
    else:
        _recorded(there)
    for name, show in {"forced": _ahead, "learning": _learning}.items():
        path = FOLDER / f"{name}.json"
        if path.exists() and (found := kept(partial(read, path), None)):
            show(found)


def _recorded(there: list[Recording]) -> None:
    one = there[0]
    said = words(texts.headline(one), elem_id="bench-claims")
    named = [(texts.choice(each, processor()), each.name) for each in there]
    named[1:] = sorted(named[1:], key=lambda each: texts.HERE not in each[0])
    choice = gr.Dropdown(
        named, value=one.name,
        label="Settings, each with its highest speed",
        elem_id="bench-recording", filterable=False,
    )  # fmt: skip
    with gr.Row(elem_id="bench-charts"):
        plots = [_plot(one, name) for name in list(CHARTS)[:2]]
    named = words(texts.methods(one), elem_classes="note", elem_id="bench-methods")
    with gr.Accordion("More charts, all numbers", open=False, elem_id="bench-more"):
        with gr.Row(elem_id="bench-more-charts"):
            plots += [_plot(one, name) for name in list(CHARTS)[2:]]
        words(f"<p>{texts.COLUMNS}</p>", elem_classes="note")
        frame = gr.Dataframe(
            texts.styled(one), interactive=False, label="The numbers in these charts",
            max_height=420, elem_id="bench-table", elem_classes="wide-table",
            buttons=["copy", "fullscreen"], pinned_columns=1,
        )  # fmt: skip
    both = words(texts.beside(one), elem_id="bench-paper")
    chosen = choice.input(
        updates, choice, [said, *plots, named, frame, both], queue=False,
        trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    show_results(chosen, "bench-claims")


def _plot(recording: Recording, name: str) -> gr.Plot:
    with gr.Column(min_width=320, elem_classes="bench-chart"):
        figure = CHARTS[name](recording)
        made = plot(figure, visible=figure is not None, min_width=280, elem_id=f"bench-{name}")
        words(f"<p>{texts.NOTES[name]}</p>", elem_classes="note")
    return made


def _ahead(found: Row) -> None:
    words(texts.ahead(found), elem_id="bench-ahead")
    plot(ahead(found), elem_id="ahead")


def _learning(trained: Row) -> None:
    with gr.Accordion("How fast each method learns", open=False, elem_id="bench-learning"):
        plot(learning(trained), elem_id="learning")
        times = many(len({row["updates"] for row in trained["rows"]}), "time")
        words(
            f"<p>One training of all on the same text, measured {times} with one tree for all, "
            "larger than what pays here, so τ is higher than with trees that size themselves. "
            f"Differences below 0.1 mean little.</p>{texts.command(trained)}",
            elem_classes="note",
        )


def ours() -> list[Recording]:
    """Our own recordings, the first one to be shown first: of the page's own settings, on this
    server's kind of processor if there is one. In each, the fastest method first."""
    there = sorted(kept(recordings, []), key=_order)
    return [replace(one, results={**one.results, "methods": _fastest(one)}) for one in there]


def _order(one: Recording) -> tuple[bool, bool, str]:
    given = one.results["settings"]
    own = (
        given.get("tree") == "auto" and one.precision == "float32" and not given.get("temperature")
    )
    return not (own and texts.near(one, processor())), one.name != FIRST, texts.title(one)


def first(target: str) -> Recording | None:
    """What is shown first of a target."""
    return next((one for one in ours() if one.target == target), None)


def _fastest(found: Recording) -> dict[str, Any]:
    rate = "tokens_per_second"
    return dict(sorted(found.methods.items(), key=lambda one: -(one[1].get(rate) or 0)))


def updates(name: str) -> tuple[Any, ...]:
    [found] = [one for one in ours() if one.name == name]
    figures = [draw(found) for draw in CHARTS.values()]
    return (
        texts.headline(found),
        *(gr.update(value=one, visible=one is not None) for one in figures),
        texts.methods(found),
        texts.styled(found),
        texts.beside(found),
    )
