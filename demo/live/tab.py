"""The Live tab: a prompt, decoded before your eyes, token by token and cycle by cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from demo.common.methods import family, tli_of
from demo.common.prompt import enter_presses, prompt_box
from demo.common.status import say, status_line, words
from demo.common.tokens.view import PACES, trace_view
from demo.engine import MOST_NEW_TOKENS, Engine
from demo.live import run as runs
from demo.live.charts import CHARTS
from demo.live.settings import (
    NAMES,
    PACE_NAMES,
    TREE,
    Settings,
    choose,
    from_address,
    link,
    preset,
    speed,
    teaching,
)
from demo.session import PRIVATE, Shared, Visit, connect
from demo.share import Share, load_address, share_box, wire_share
from demo.tli.stops import STOPS, stops_html
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.loading.names import LABELS

ID, TITLE = "live", "Live"
TREE_NOTE = (
    "Automatic: the tree keeps growing as long as that is expected to pay off (on a GPU the "
    "drafter’s own measured tree is taken). Otherwise it has the shape set here; choosing a "
    "drafter sets the one measured for it. τ depends on the tree: compare it only between runs of "
    "one fixed tree."
)
SLIDERS = {  # lowest, highest, step, label
    "depth": (1, 12, 1, "Depth: drafted levels"),
    "breadth": (1, 16, 1, "Breadth: nodes per level"),
    "budget": (1, 64, 1, "Budget: drafted nodes kept"),
    "tokens": (1, MOST_NEW_TOKENS, 1, "New tokens at most"),
    "temperature": (0, 2, 0.05, "Temperature: 0 is greedy"),
    "top_p": (0.05, 1, 0.05, "Top-p: 1 is off"),
}


@dataclass(frozen=True)
class Live:
    """The components that events connect. settings: by the names of `Settings`."""

    settings: dict[str, Any]
    run: gr.Button
    stop: gr.Button
    compare: gr.Button
    teaching: gr.Button
    speed: gr.Button
    stops: gr.HTML
    status: gr.HTML
    view: gr.HTML
    charts: list[gr.Plot]
    raw: gr.Textbox
    save: gr.DownloadButton
    opened: gr.File
    share: Share

    @property
    def prompt(self) -> gr.Textbox:
        return self.settings["prompt"]


def build(shared: Shared) -> Live:
    """Lay the tab out; nothing is connected yet."""
    engine, made = shared.engine, {}
    method = engine.default()
    settings: dict[str, Any] = {"target": shared.target}
    with gr.Row(equal_height=False, elem_classes="controls"):
        with gr.Column(scale=3, min_width=320):
            settings["prompt"] = prompt_box("", "runs it", lines=5, max_lines=12)
            with gr.Row(elem_classes="buttons"):
                made["run"] = gr.Button("Run", variant="primary", elem_id="run")
                made["stop"] = gr.Button("Stop", interactive=False, elem_id="stop")
            made["status"] = status_line(elem_id="status")
        with gr.Column(scale=2, min_width=280):
            drafter, made["stops"] = _drafter(engine, method)
            with gr.Row(elem_classes="presets"):
                made["teaching"] = gr.Button(
                    "Preset: slow motion, to teach", size="sm", elem_id="teaching"
                )
                made["speed"] = gr.Button("Preset: full speed", size="sm", elem_id="speed")
    # The output comes next: what is set less often stands below it.
    made["view"] = trace_view(elem_id="view")
    made["compare"] = gr.Button("Compare with plain decoding", elem_id="compare-plain")
    settings |= drafter | _settings(engine.tree(method))
    with gr.Column(elem_id="charts"):
        made["charts"] = [
            gr.Plot(visible=False, show_label=False, container=False, elem_id=f"chart-{name}")
            for name in CHARTS
        ]
    return Live({name: settings[name] for name in NAMES}, **made, **_files())


def _drafter(engine: Engine, method: str) -> tuple[dict[str, Any], gr.HTML]:
    """The choice of method, and of N for MoA."""
    kinds = dict.fromkeys(family(name) for name in engine.methods())
    kind = family(method)
    choice = gr.Radio(
        [(LABELS.get(name, name), name) for name in kinds], value=kind, label="Method",
        elem_id="method",
    )  # fmt: skip
    with gr.Group(elem_classes="tli"):
        slider = gr.Slider(
            STOPS[0], STOPS[-1], tli_of(method), step=1, precision=0,
            label="TLI (Target Layer Inference): target layers reused, N", elem_id="tli",
            buttons=[], interactive=kind == "moa",
        )  # fmt: skip
        stops = words(stops_html(engine, method), elem_id="tli-stops")
    return {"method": choice, "tli": slider}, stops


def _settings(tree: TreeSettings) -> dict[str, Any]:
    """The folded settings: the tree's shape, the sampling, the length and the pace."""
    start = {"depth": tree.depth, "breadth": tree.breadth, "budget": tree.budget}
    start |= {"tokens": 128, "temperature": 0, "top_p": 1}
    with gr.Accordion("Draft tree, sampling, length and pace", open=False, elem_id="settings"):
        words(f"<p>{TREE_NOTE}</p>")
        made: dict[str, Any] = {
            "auto_tree": gr.Checkbox(
                True, label="Size trees automatically, for speed", elem_id="auto-tree"
            )
        }
        with gr.Row():
            made |= {
                name: gr.Slider(
                    low, high, start[name], step=step, label=label, elem_id=name, buttons=[],
                    min_width=220, interactive=name not in TREE,
                )
                for name, (low, high, step, label) in SLIDERS.items()
            }  # fmt: skip
            made["seed"] = gr.Number(0, label="Seed", elem_id="seed", min_width=220)
        made["pace"] = gr.Radio(
            list(zip(PACE_NAMES, PACES, strict=True)), value=PACES[0], elem_id="pace",
            label="Playback speed",
        )  # fmt: skip
    return made


def _files() -> dict[str, Any]:
    """Below the view: the raw prompt, traces as files, and the link."""
    with gr.Accordion("Raw prompt", open=False, elem_id="raw-prompt"):
        raw = gr.Textbox(
            label="What the target reads, template and special tokens included",
            lines=3, max_lines=14, interactive=False, buttons=["copy"], elem_id="raw",
        )  # fmt: skip
    with (
        gr.Accordion("Save, open, share", open=False, elem_id="files"),
        gr.Row(equal_height=False),
    ):
        with gr.Column(min_width=260):
            save = gr.DownloadButton("Save this trace", interactive=False, elem_id="save")
            opened = gr.File(
                label="Open a trace, also one from the command line (--trace)",
                file_types=[".json"], file_count="single", height=150, elem_id="open",
            )  # fmt: skip
        with gr.Column(min_width=260):
            share = share_box()
    return {"raw": raw, "save": save, "opened": opened, "share": share}


def wire(demo: gr.Blocks, live: Live, shared: Shared) -> None:
    """Connect the tab's components."""
    engine, settings = shared.engine, live.settings
    tree = [settings[name] for name in TREE]
    aside = [*live.charts, live.raw, live.save]
    shows = [live.status, live.view]

    def run(visit: Visit, stop: Callable[[], bool], *values: Any) -> Iterator[tuple[Any, ...]]:
        given = Settings(*values)
        yield from runs.run(visit, engine, given.request, given.pace, stop)

    def compare(visit: Visit, stop: Callable[[], bool]) -> Iterator[tuple[Any, ...]]:
        yield from runs.compare(visit, engine, stop)

    ran = connect(
        shared, live.run, live.stop, run, list(settings.values()), shows, hides=live.charts
    )
    ran.then(runs.aside, shared.visit, aside, queue=False, **PRIVATE)
    connect(shared, live.compare, live.stop, compare, [], shows)
    enter_presses(settings["prompt"], "run")
    _wire_settings(demo, live, shared, tree)
    live.opened.upload(
        open_file, [shared.visit, live.opened, settings["pace"]], shows, **PRIVATE
    ).then(
        lambda visit: (*runs.aside(visit), None), shared.visit, [*aside, live.opened],
        queue=False, **PRIVATE,
    )  # fmt: skip  # the file is let go: another can be opened where it lay
    wire_share(live.share, live.status, partial(link, ID), list(settings.values()))


def _wire_settings(demo: gr.Blocks, live: Live, shared: Shared, tree: list[gr.Slider]) -> None:
    """Choices, presets, and the page's address."""
    engine, settings = shared.engine, live.settings

    def from_link(request: gr.Request) -> tuple[Any, ...]:  # gradio sees no annotations in partials
        return from_address(engine, shared.tabs, request)

    gr.on(
        [settings["method"].input, settings["tli"].input, shared.target.input],
        partial(choose, engine), [shared.target, settings["method"], settings["tli"]],
        [settings["tli"], live.stops, *tree], queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    settings["auto_tree"].change(
        lambda auto: (gr.update(interactive=not auto),) * len(tree), settings["auto_tree"], tree,
        queue=False, **PRIVATE,
    )  # fmt: skip
    known = [settings["method"], settings["tli"], live.stops, *tree, settings["auto_tree"]]
    for button, which in ((live.teaching, teaching), (live.speed, speed)):
        button.click(
            partial(preset, engine, which), shared.target,
            [live.status, *known, settings["tokens"], settings["pace"]], queue=False, **PRIVATE,
        )  # fmt: skip
    own = [settings[name] for name in NAMES[1:]]
    load_address(demo, from_link, [live.status, live.stops, *own], "run")


def open_file(visit: Visit, path: str | None, pace: str) -> tuple[Any, Any]:
    """Show a saved trace; whatever is wrong with it becomes a sentence."""
    try:
        return runs.open_trace(visit, path, pace)
    except UserError as error:
        return say(str(error), "error"), gr.skip()
