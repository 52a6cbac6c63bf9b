"""The Network tab: drafter here, target on a server, and between them a link that can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from demo.common.prompt import enter_presses, prompt_box
from demo.common.status import status_line, words
from demo.common.tokens.view import trace_view
from demo.engine import MOST_NEW_TOKENS
from demo.live.run import saved
from demo.network import run as runs
from demo.network import settings as links
from demo.network.charts import CHARTS
from demo.network.recorded import recorded, recorded_charts, records_html
from demo.network.server import NO_GPU
from demo.network.switch import press, switch_view
from demo.session import PRIVATE, Shared, Visit, connect
from demo.share import Share, wire_share
from moa_core.link.emulator import DEFAULT, PRESETS

ID, TITLE = "network", "Network"
INTRO = (
    "<p>The large model, the target, runs in a separate <b>server</b> process; the <b>drafter</b> "
    "runs here. We add realistic network delay between them. Cut the link while text streams: the "
    "drafter goes on alone, and when the link is back the target checks what it wrote.</p>"
)
NUMBERS = [("bf16: 2 bytes per number", "bf16"), ("int8: 1", "int8"), ("f32: 4", "f32")]
RETURN = [
    ("Heal: the target verifies it, and the text is the target’s own again", "heal"),
    ("Keep it as it is, labelled, and go on verified", "keep"),
]
SLIDERS = {  # lowest, highest, start, step, label
    "tokens": (2, MOST_NEW_TOKENS, 160, 1, "New tokens at most"),
    "cut_after": (0, 256, 0, 1, "Cut automatically after N tokens (0 = never)"),
    "cut_for": (2, 30, 5, 1, "… for N seconds"),
    "alone_rate": (0, 60, 15, 1, "Offline speed limit, tokens per second (0 = none)"),
}


@dataclass(frozen=True)
class Network:
    """The components that events connect.

    settings  by the names of `Settings`
    own       the box of the sliders of one's own link
    """

    settings: dict[str, Any]
    about: gr.HTML
    own: gr.Group
    run: gr.Button
    stop: gr.Button
    switch: gr.HTML
    status: gr.HTML
    view: gr.HTML
    compare: gr.Button
    charts: list[gr.Plot]
    weight: gr.HTML
    save: gr.DownloadButton
    share: Share

    @property
    def prompt(self) -> gr.Textbox:
        return self.settings["prompt"]


def build(shared: Shared) -> Network:
    """Lay the tab out; nothing is connected yet."""
    made: dict[str, Any] = {}
    settings: dict[str, Any] = {"target": shared.target}
    words(INTRO, elem_id="net-intro")
    with gr.Row(equal_height=False, elem_classes="controls"):
        with gr.Column(scale=3, min_width=320):
            settings["prompt"] = prompt_box("net-", "runs", lines=4, max_lines=10)
        with gr.Column(scale=2, min_width=280):
            there = links.methods_of(shared.far, shared.engine)
            settings["method"] = gr.Radio(**there, label="Method", elem_id="net-method")
            settings["link"] = gr.Dropdown(
                links.choices(), value=DEFAULT, label="Link", elem_id="net-link", filterable=False
            )
            made["about"] = words(links.about_html(PRESETS[DEFAULT]), elem_id="net-about")
            with gr.Group(visible=False, elem_id="net-own") as made["own"]:
                start = links.sliders()
                for name, (_, _, low, high, step, label) in links.FIGURES.items():
                    settings[name] = gr.Slider(
                        low, high, start[name], step=step, label=label, elem_id=f"net-{name}",
                        buttons=[],
                    )  # fmt: skip
    settings |= _options()
    with gr.Row(elem_classes="buttons"):
        made["run"] = gr.Button("Run", variant="primary", elem_id="net-run")
        made["stop"] = gr.Button("Stop", interactive=False, elem_id="net-stop")
    made["switch"] = switch_view(elem_id="net-switch")
    made["status"] = status_line(NO_GPU if shared.far.borrows else "", elem_id="net-status")
    made["view"] = trace_view("network/figures.js", elem_id="net-view")
    made["compare"] = gr.Button("Compare with the same run without a link", elem_id="net-compare")
    made["weight"] = words("", elem_id="net-weight")
    with gr.Column(elem_id="net-charts"):
        made["charts"] = [
            gr.Plot(visible=False, show_label=False, container=False, elem_id=f"net-{name}")
            for name in CHARTS
        ]
    made |= _files()
    found = recorded()
    with gr.Accordion("Recorded: many links and cuts", open=False, elem_id="net-recorded"):
        words(records_html(found), elem_id="net-records")
        for at, figure in enumerate(recorded_charts(found)):
            gr.Plot(figure, show_label=False, container=False, elem_id=f"net-recorded-{at}")
    return Network({name: settings[name] for name in links.NAMES}, **made)


def _options() -> dict[str, Any]:
    """The folded settings."""
    with gr.Accordion("Advanced", open=False, elem_id="net-more"):
        with gr.Row():
            made: dict[str, Any] = {
                "numbers": gr.Radio(
                    NUMBERS, value="bf16", label="Number format", elem_id="net-numbers",
                    min_width=280,
                ),
                "back": gr.Radio(
                    RETURN, value="heal", label="Text written offline, when the link is back",
                    elem_id="net-back", min_width=280,
                ),
            }  # fmt: skip
        with gr.Row():
            for name, (low, high, start, step, label) in SLIDERS.items():
                made[name] = gr.Slider(
                    low, high, start, step=step, label=label, elem_id=f"net-{name}", buttons=[],
                    min_width=240, precision=0,
                )  # fmt: skip
        words(
            "<p>The limit is a reader’s pace; this machine’s drafter is faster. A run waits at "
            f"most {runs.PATIENCE:g} s for its link.</p>"
        )
    return made


def _files() -> dict[str, Any]:
    with (
        gr.Accordion("Save, share", open=False, elem_id="net-files"),
        gr.Row(equal_height=False),
    ):
        save = gr.DownloadButton("Save this trace", interactive=False, elem_id="net-save")
        with gr.Column(min_width=260):
            share = gr.Button("Make an address of these settings", elem_id="net-share")
            address = gr.Textbox(
                label="Address", lines=2, interactive=False, buttons=["copy"], elem_id="net-address"
            )
    return {"save": save, "share": Share(share, address)}


def wire(demo: gr.Blocks, tab: Network, shared: Shared) -> None:
    """Connect the tab's components."""
    engine, far, settings = shared.engine, shared.far, list(tab.settings.values())

    def run(visit: Visit, stop: Callable[[], bool], *values: Any) -> Iterator[tuple[Any, ...]]:
        yield from runs.run(visit, engine, far, links.Settings(*values), stop)

    def compare(visit: Visit, stop: Callable[[], bool]) -> Iterator[tuple[Any, ...]]:
        yield from runs.compare(visit, engine, far, stop)

    shows = [tab.status, tab.view]
    ran = connect(shared, tab.run, tab.stop, run, settings, [*shows, tab.switch], hides=tab.charts)
    aside = [*tab.charts, tab.weight, tab.save]
    ran.then(_aside, shared.visit, aside, queue=False, **PRIVATE)
    connect(shared, tab.compare, tab.stop, compare, [], shows)
    tab.switch.pressed(
        lambda visit: press(visit.link if visit else None), shared.visit, tab.switch,
        queue=False, trigger_mode="multiple", **PRIVATE,
    )  # fmt: skip
    enter_presses(tab.prompt, "net-run")
    wire_share(tab.share, tab.status, partial(links.address, ID), settings)
    _wire_settings(demo, tab, shared)


def _wire_settings(demo: gr.Blocks, tab: Network, shared: Shared) -> None:
    settings, far, engine = tab.settings, shared.far, shared.engine
    own = [settings[name] for name in links.FIGURES]

    def of_target(target: str) -> dict[str, Any]:
        return gr.update(**links.methods_of(far, engine, target))

    def from_link(request: gr.Request) -> tuple[Any, ...]:  # gradio sees no annotations in partials
        return links.from_address(ID, far, engine, request)

    settings["link"].input(
        links.follow, [settings["link"], *own], [tab.about, tab.own, *own], queue=False, **PRIVATE
    )
    gr.on(
        [slider.input for slider in own], links.about_of, [settings["link"], *own], tab.about,
        queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    shared.target.change(of_target, shared.target, settings["method"], queue=False, **PRIVATE)
    linked = [settings[name] for name in links.LINKED]
    outputs = [tab.status, tab.about, tab.own, *linked]
    demo.load(from_link, None, outputs, queue=False, **PRIVATE)


def _aside(visit: Visit) -> tuple[Any, ...]:
    """What goes with the newest run: (charts, weight, file to save)."""
    shown = visit.far
    if shown is None or "words" not in shown.trace.about:
        return (gr.skip(),) * (len(CHARTS) + 2)
    charts = [gr.skip()] * len(CHARTS)
    if shown.trace.accepted_lengths:
        charts = [gr.update(value=draw(shown.trace), visible=True) for draw in CHARTS.values()]
    return *charts, f"<p>{escape(shown.weight)}</p>", saved(shown.trace)
