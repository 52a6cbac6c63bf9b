"""The Network tab: the drafter in the visitor's browser, the target here, a WebSocket between."""

import json
from statistics import fmean, linear_regression
from typing import Any

import gradio as gr

from demo.common.controls import ask, control
from demo.common.elements import call, component, status_line, words
from demo.common.figures import kept, method_of
from demo.common.methods import RIVAL, family, label
from demo.common.theme import DEMO
from demo.common.tokens.view import feed_of
from demo.engine import Engine
from demo.live.recording import recording
from demo.network.recorded import right_answers
from demo.session import PRIVATE, Shared
from demo.share import load_address, share_fold
from moa_core.bench.records import recorded
from moa_core.decoding.trace import Drafted, Trace, Verified
from moa_core.link.emulator import PRESETS

ID, TITLE = "network", "Network"
INTRO = (
    "<p>The <b>drafter</b> in your browser guesses; the larger <b>target</b> on the server checks, "
    "one round trip each time. Cut off, the drafter writes on alone, to be checked later.</p>"
)
TRIPS = (
    '<p class="conclusion"></p><p class="streams"></p><details class="trips" open>'
    "<summary>With other round trips</summary>"
    "<label>Round trip to the server, assumed: <span></span>"
    '<input type="range" min="0" max="200" step="5"></label>'
    '<p class="whose"></p><div class="bars"></div><p class="note"><i class="bar rest"></i> '
    'On the way: computed. <i class="bar verify"></i> In the target, <i class="bar draft"></i> '
    'in the drafter: <span class="whence">'
    "measured, like the number of calls, in another, uncut recording with both models on one "
    "machine; a browser drafts more slowly.</span></p></details>"
)
NO_DRAFTER = (
    "<p>There is no drafter for this target yet that a browser can run: MoA or EAGLE-2.</p>"
)
LENT = (
    "<p>A GPU is lent here for one run at a time, so a browser cannot stay connected to it. "
    "Use the command-line client: <code>python -m moa_core generate --server ws://…</code>.</p>"
)
DUEL, HERE = "duel", "none"
AT_FIRST = "4g"  # slow enough that a visitor can cut it during a run
LINKED = ("method", "prompt", "tokens", "link")
BAR = "network/bar.js"


def lanes_of(engine: Engine) -> dict[str, list[tuple[str, str]]]:
    """What a browser can draft with, each method and a duel if there are two: names and labels."""
    found = {name: [name] for name in engine.methods() if family(name) in ("moa", RIVAL)}
    if RIVAL in found and len(found) > 1:
        found[DUEL] = [engine.default(), RIVAL]
    return {name: [(one, label(one)) for one in each] for name, each in found.items()}


def links() -> dict[str, tuple[float, float, float]]:
    """Links that the browser simulates: round trip in ms, Mbit/s to and from the server."""
    return {HERE: (0, 0, 0)} | {name: (one.rtt, one.up, one.down) for name, one in PRESETS.items()}


def build(shared: Shared) -> gr.Textbox | None:
    """Returns None if no browser can draft."""
    engine = shared.engine
    usable = bool(lanes_of(engine)) and not engine.borrows
    instead = LENT if engine.borrows else NO_DRAFTER
    words(INTRO if usable else instead, elem_id="net-intro")
    prompt = None
    if usable:
        prompt = _page(shared)
    else:
        _trips()
    return prompt


def _trips() -> None:
    """What a round trip for each model call costs a recorded run, drafted and plain."""
    if made := recording():
        ours, plain = (sum(one.seconds.values()) for one in (made.trace, made.plain))
        drafting = made.trace.seconds["draft"]
        runs = [
            (
                f"{method_of(made.trace)}, no cut",
                made.trace.target_calls,
                ours - drafting,
                drafting,
            ),
            ("Plain, token by token", made.plain.target_calls, plain, 0),
            ("Plain, streamed", 1, plain, 0),
            (f"{method_of(made.trace)}, streamed", 1, ours - drafting, drafting),
        ]
        check = (plain / made.plain.target_calls, *_checks(made.trace))
        component(
            TRIPS + right_answers(kept(recorded, {})), "network/trips.js",
            elem_id="net-trips", runs=runs, trip=PRESETS[AT_FIRST].rtt, check=check,
        )  # fmt: skip


def _checks(trace: Trace) -> tuple[float, float]:
    """Seconds that the target takes to check any tree, and more for each guess: a fitted line."""
    guesses = [len(event.tree) - 1 for event in trace.of(Drafted)]
    seconds = [event.seconds for event in trace.of(Verified)]
    some, more = fmean(seconds), 0.0
    if len({*guesses}) > 1:
        more, some = linear_regression(guesses, seconds)
    return (some, more) if more >= 0 < some else (fmean(seconds), 0.0)


def _page(shared: Shared) -> gr.Textbox:
    """The controls and lanes. All events stay in the browser, except the page's address."""
    engine = shared.engine
    lanes = lanes_of(engine)
    settings: dict[str, Any] = {}
    with gr.Row(elem_id="net"):
        settings["prompt"], run, stop = ask("net-", "runs")
        with gr.Row(elem_id="net-bar"):
            cut = gr.Button("✂ Cut the connection", interactive=False, elem_id="net-cut")
            first = engine.default()
            component(_file("bar.html"), BAR, elem_id="net-way", lanes=lanes, first=first)
        with gr.Row(elem_id="net-how"):
            settings |= _settings(engine, lanes)
        status = status_line(elem_id="net-status")
        with gr.Row(equal_height=False, elem_id="net-lanes"):
            with gr.Column(min_width=300):
                _lane(0)
            with gr.Column(min_width=300, visible=False) as rival:
                _lane(1)
        _trips()
    for name, button in (("stop", stop), ("cut", cut)):
        button.click(None, js=call(BAR, name), **PRIVATE)
    _wire(settings, run, rival)
    own = {name: settings[name] for name in LINKED}
    share_fold("net-", ID, status, own, target=engine.first)
    load_address(shared, ID, status, own, check)
    return settings["prompt"]


def _settings(engine: Engine, lanes: dict[str, list[tuple[str, str]]]) -> dict[str, Any]:
    duel = f"Duel with {label(RIVAL)}"
    method = gr.Dropdown(
        [(duel if name == DUEL else label(name), name) for name in lanes], min_width=190,
        value=engine.default(), label="Drafter here", elem_id="net-method", filterable=False,
    )  # fmt: skip
    called = [
        (f"{one.title}: {one.rtt:g} ms, {one.down:g} / {one.up:g}", name)
        for name, one in PRESETS.items()
    ]
    preset = gr.Dropdown(
        [("None: your real connection", HERE), *called], value=AT_FIRST, elem_id="net-link",
        label="Simulated connection, Mbit/s down / up", filterable=False, min_width=285,
    )  # fmt: skip
    tokens = control("tokens", "net-", minimum=2, min_width=215)
    return {"method": method, "link": preset, "tokens": tokens}


def _lane(place: int) -> None:
    """The first one begins with a recorded run whose link was cut."""
    made = None if place else recording()
    component(
        _file("lane.html"), "network/lane.js", lane=place, elem_id=("net-view", "net-rival")[place],
        recorded=json.dumps(made and feed_of(made.cut, "drafter")),
    )  # fmt: skip


def _file(name: str) -> str:
    return (DEMO / "network" / name).read_text(encoding="utf-8")


def _wire(settings: dict[str, Any], run: gr.Button, rival: gr.Column) -> None:
    asked, preset = [settings[name] for name in LINKED], settings["link"]
    run.click(None, asked, js=call(BAR, "run", links()), **PRIVATE)
    preset.change(None, preset, js=call(BAR, "slow", links()), **PRIVATE)
    shows = f"name => ({{ __type__: 'update', visible: name === '{DUEL}' }})"
    settings["method"].change(None, settings["method"], rival, js=shows, **PRIVATE).then(
        None, settings["method"], js=call(BAR, "choose"), **PRIVATE
    )


def check(engine: Engine, given: dict[str, Any], wrong: list[str]) -> None:
    """The drafter and the link of an address, if there are such."""
    for name, known in (("method", lanes_of(engine)), ("link", links())):
        if name in given and given[name] not in known:
            wrong.append(f"{name} must be one of {', '.join(known)}")
            del given[name]
