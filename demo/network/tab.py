"""The Network tab: drafter here, target on a server, and between them a link that can be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from demo.common.prompt import enter_presses, prompt_box
from demo.common.shared import Shared
from demo.common.status import status_line
from demo.common.tokens.view import trace_view
from demo.engine import MOST_NEW_TOKENS, Engine, Request
from demo.live.run import saved
from demo.network import settings as links
from demo.network.charts import CHARTS
from demo.network.recorded import recorded, recorded_charts, records_html
from demo.network.run import PATIENCE, Asked, compare, run
from demo.network.server import NO_GPU, Far
from demo.network.switch import press, switch_view
from demo.session import PRIVATE, Visit, connect
from moa_core.link.network import DEFAULT, PRESETS

ID, TITLE = "network", "Network"
INTRO = (
    "<p>The target runs on a <b>server</b>, a process of its own; this page is its client and has "
    "the <b>drafter</b>. Each cycle is one question and one answer over the link between them, "
    "whose delays are emulated. Cut the link while text streams: the drafter "
    "goes on alone, and when the link is back the target checks what it wrote.</p>"
)
NUMBERS = [("bf16: 2 bytes a number", "bf16"), ("int8: 1", "int8"), ("f32: 4", "f32")]
RETURN = [
    ("Heal: the target verifies it, and the text is the target’s own again", "heal"),
    ("Keep it as it is, labelled, and go on verified", "keep"),
]
OPTIONS = {  # lowest, highest, start, step, label
    "tokens": (2, MOST_NEW_TOKENS, 160, 1, "New tokens at most"),
    "cut_after": (0, 256, 0, 1, "Cut by itself after so many tokens (0: by hand alone)"),
    "cut_for": (2, 30, 5, 1, "… for so many seconds"),
    "alone_rate": (0, 60, 15, 1, "Written alone at most, tokens a second (0: as fast as it can)"),
}


@dataclass(frozen=True)
class Network:
    """The components that events connect.

    settings  what a run is made of, by name; the sliders of one's own link among them
    own       the box of those sliders
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
    share: gr.Button
    address: gr.Textbox

    @property
    def prompt(self) -> gr.Textbox:
        return self.settings["prompt"]


def build(shared: Shared) -> Network:
    """Lay the tab out; nothing is connected yet."""
    made: dict[str, Any] = {}
    _words(INTRO, elem_id="net-intro")
    with gr.Row(equal_height=False, elem_classes="controls"):
        with gr.Column(scale=3, min_width=320):
            settings = {"prompt": prompt_box("net-", "runs", lines=4, max_lines=10)}
        with gr.Column(scale=2, min_width=280):
            settings["method"] = gr.Radio(
                links.methods_of(shared.far), label="Method", elem_id="net-method",
                value=links.first_method(shared.far, shared.engine),
            )  # fmt: skip
            settings["link"] = gr.Dropdown(
                links.choices(), value=DEFAULT, label="Link", elem_id="net-link", filterable=False
            )
            made["about"] = _words(links.about_html(PRESETS[DEFAULT]), elem_id="net-about")
            with gr.Group(visible=False, elem_id="net-own") as made["own"]:
                settings |= {name: _own(name) for name in links.FIELDS}
    settings |= _options()
    with gr.Row(elem_classes="buttons"):
        made["run"] = gr.Button("Run", variant="primary", elem_id="net-run")
        made["stop"] = gr.Button("Stop", interactive=False, elem_id="net-stop")
    made["switch"] = switch_view(elem_id="net-switch")
    made["status"] = status_line(NO_GPU if shared.far.borrows else "", elem_id="net-status")
    made["view"] = trace_view("link_figures", elem_id="net-view")
    made["compare"] = gr.Button("Compare with the same run without a link", elem_id="net-compare")
    made["weight"] = _words("", elem_id="net-weight")
    with gr.Column(elem_id="net-charts"):
        made["charts"] = [
            gr.Plot(visible=False, show_label=False, container=False, elem_id=f"net-{name}")
            for name in CHARTS
        ]
    made |= _files()
    found = recorded()
    _words(f"<h2>Recorded</h2>{records_html(found)}", elem_id="net-records")
    for at, figure in enumerate(recorded_charts(found)):
        gr.Plot(figure, show_label=False, container=False, elem_id=f"net-recorded-{at}")
    return Network(settings, **made)


def _words(text: str, **kwargs: Any) -> gr.HTML:
    return gr.HTML(text, apply_default_css=False, **kwargs)


def _own(name: str) -> gr.Slider:
    _, _, low, high, step, words = links.FIELDS[name]
    return gr.Slider(
        low, high, links.starting()[name], step=step, label=words, elem_id=f"net-{name}", buttons=[]
    )


def _options() -> dict[str, Any]:
    """The folded settings."""
    with gr.Accordion("Numbers, length, and a lost link", open=False, elem_id="net-more"):
        with gr.Row():
            made: dict[str, Any] = {
                "numbers": gr.Radio(
                    NUMBERS, value="bf16", label="Numbers on the wire", elem_id="net-numbers",
                    min_width=280,
                ),
                "back": gr.Radio(
                    RETURN, value="heal", label="Text written offline, when the link is back",
                    elem_id="net-back", min_width=280,
                ),
            }  # fmt: skip
        with gr.Row():
            for name, (low, high, start, step, words) in OPTIONS.items():
                made[name] = gr.Slider(
                    low, high, start, step=step, label=words, elem_id=f"net-{name}", buttons=[],
                    min_width=240, precision=0,
                )  # fmt: skip
        _words(
            "<p>Written alone at a reader’s pace, so that one can follow; this machine’s drafter "
            f"is faster. A run waits at most {PATIENCE:g} s for its link.</p>"
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
    return {"save": save, "share": share, "address": address}


def wire(demo: gr.Blocks, tab: Network, shared: Shared) -> None:
    """Connect the tab's components."""
    engine, far, settings = shared.engine, shared.far, tab.settings
    own = [settings[name] for name in links.FIELDS]
    _wire_settings(demo, tab, shared, own)
    connect(
        engine, shared.visit, tab.run, tab.stop, partial(_run, engine, far, list(settings)),
        [shared.target, *settings.values()], [tab.status, tab.view, tab.switch], hides=tab.charts,
    ).then(
        _aside, shared.visit, [*tab.charts, tab.weight, tab.save], queue=False, **PRIVATE
    )  # fmt: skip
    connect(
        engine, shared.visit, tab.compare, tab.stop, partial(_compare, engine, far), [],
        [tab.status, tab.view],
    )  # fmt: skip
    tab.switch.pressed(
        lambda visit: press(visit.link if visit else None), shared.visit, tab.switch,
        queue=False, trigger_mode="multiple", **PRIVATE,
    )  # fmt: skip
    enter_presses(settings["prompt"], "net-run")


def _wire_settings(demo: gr.Blocks, tab: Network, shared: Shared, own: list[gr.Slider]) -> None:
    settings, far = tab.settings, shared.far
    settings["link"].input(
        links.follow, [settings["link"], *own], [tab.about, tab.own, *own], queue=False, **PRIVATE
    )
    gr.on(
        [slider.input for slider in own], links.about_of, [settings["link"], *own], tab.about,
        queue=False, trigger_mode="always_last", **PRIVATE,
    )  # fmt: skip
    shared.target.change(
        lambda target: gr.update(
            choices=links.methods_of(far, target),
            value=links.first_method(far, shared.engine, target),
        ),
        shared.target, settings["method"], queue=False, **PRIVATE,
    )  # fmt: skip

    def from_link(request: gr.Request) -> tuple[Any, ...]:  # gradio sees no annotations in partials
        return links.from_address(ID, far, shared.engine, list(settings), request)

    demo.load(
        from_link, None, [tab.status, tab.about, tab.own, *settings.values()], queue=False,
        **PRIVATE,
    )  # fmt: skip
    tab.share.click(
        partial(links.address, ID, list(settings)), [shared.target, *settings.values()],
        [tab.status, tab.address], queue=False, **PRIVATE,
    ).success(
        None, tab.address, tab.address,
        js="query => query && location.origin + location.pathname + query",
    )  # fmt: skip


def _run(
    engine: Engine, far: Far, names: list[str], visit: Visit, should_stop: Callable[[], bool],
    target: str, *values: Any,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """One run over a link: (status, view, switch)."""
    given = dict(zip(names, values, strict=True))
    request = Request(given["prompt"], given["method"], int(given["tokens"]), target=target)
    asked = Asked(
        request, links.chosen(given["link"], given), given["numbers"], given["back"] == "keep",
        int(given["cut_after"]), float(given["cut_for"]), float(given["alone_rate"]),
    )  # fmt: skip
    yield from run(visit, engine, far, asked, should_stop)


def _compare(
    engine: Engine, far: Far, visit: Visit, should_stop: Callable[[], bool]
) -> Iterator[tuple[Any, ...]]:
    yield from compare(visit, engine, far, should_stop)


def _aside(visit: Visit) -> tuple[Any, ...]:
    """What goes with the newest run: (charts, weight, file to save)."""
    shown = visit.far
    if shown is None or "words" not in shown.trace.about:
        return (gr.skip(),) * (len(CHARTS) + 2)
    charts = [gr.update(value=draw(shown.trace), visible=True) for draw in CHARTS.values()]
    if not shown.trace.accepted_lengths:
        charts = [gr.skip()] * len(CHARTS)
    return *charts, f"<p>{escape(shown.weight)}</p>", saved(shown.trace)
