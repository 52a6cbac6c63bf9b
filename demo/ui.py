"""Assembles the page: shared parts, tabs, and their connections."""

import os
from collections.abc import Iterator
from concurrent.futures import wait
from functools import partial
from typing import Any

import gradio as gr
from starlette.responses import FileResponse
from starlette.routing import Mount, Route

from demo.access import signed_in
from demo.common.controls import carry
from demo.common.elements import call, component, say, status_line
from demo.common.scripts import Scripts, modules, tracker
from demo.common.theme import CSS, style_sheet, theme
from demo.compare import tab as compare
from demo.device.endpoint import EACH, Device
from demo.engine import Engine
from demo.inside import tab as inside
from demo.lesson import tab as lesson
from demo.live import tab as live
from demo.live.api import add_decode
from demo.live.link import Stage
from demo.network import tab as network
from demo.results import tab as results
from demo.session import PRIVATE, Shared, Visit, sentence
from demo.tli import tab as tli
from moa_core.assets import ASSETS
from moa_core.link.session import Limits
from moa_core.loading.hub import short_name

# Each tab has ID, TITLE and build(shared), which lays the tab out, connects it, and returns
# its box for the page's prompt, if it has one.
TABS = (live, compare, inside, tli, network, results, lesson)

TITLE = "Mixture of Attentions, live"
ABOUT = "Speculative decoding: a small drafter guesses, a larger target checks all in one call."
IDS = tuple(module.ID for module in TABS)
HELP = (
    '<span class="help"><button type="button" class="link" id="tour">60-second tour</button> · '
    '<a class="quiet-button" href="?class=1">Teach: class mode</a></span>'
)
OPEN_TAB = f"""() => {{
  const named = new URLSearchParams(window.location.search).get("tab");
  const known = {list(IDS)};
  return {{ __type__: "update", selected: known.includes(named) ? named : known[0] }};
}}"""
ICON, PREVIEW = (ASSETS / "pictures" / name for name in ("icon.svg", "live.png"))
LOOK_EVERY = 1.0  # seconds between updates of a download's progress
MOST_SESSIONS = 256  # sessions kept; gradio keeps 10,000, of at least 0.56 MB each
# For drafters in visitors' browsers: K and V of a session take up to 50 MB.
LINKS = Limits(sessions=8, context=1024)


def build_demo(engine: Engine, note: str = "") -> gr.Blocks:
    """The whole page for one engine; loads no model. note: a sentence for below the title."""
    with gr.Blocks(title=TITLE, analytics_enabled=False) as demo:
        title = f"<header><h1>{TITLE}</h1><p>{ABOUT} {HELP}</p></header>"
        header = component(
            title, "live/tour.js", events=("back", "follow"), elem_id="header", tabs=IDS,
            steps=lesson.for_class(),
        )  # fmt: skip
        status_line(note, elem_id="note", visible=bool(note))
        target = gr.Dropdown(
            [(f"Target: {short_name(name)}", name) for name in engine.installed],
            value=engine.first, label="Target", elem_id="target", filterable=False, container=False,
            visible=len(engine.installed) > 1,
        )  # fmt: skip
        shared = Shared(engine, demo, gr.State(), target, IDS, header)
        visits: dict[str | None, Visit] = {}

        def arrive(request: gr.Request) -> Visit:
            return visits.setdefault(request.session_hash, Visit())

        demo.load(arrive, None, shared.visit, **PRIVATE)
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as tabs:
            for module in TABS:
                with gr.Tab(module.TITLE, id=module.ID, elem_id=f"{module.ID}-tab") as tab:
                    prompt = module.build(shared)
                if prompt is not None:
                    carry(demo, tab, prompt)
                tab.select(None, js=call("common/static/page.js", "opened", module.ID))
        machine = status_line("Loading the models.", "load", elem_id="machine")
        # In the browser: if a server event updated the tabs, gradio's page would copy all their
        # contents at each update.
        for event in (demo.load, header.back):
            event(None, None, tabs, js=OPEN_TAB, **PRIVATE)
        gr.on(
            [demo.load, target.input], partial(_machine, engine), target, machine,
            concurrency_limit=None, trigger_mode="always_last", **PRIVATE,
        )  # fmt: skip
        add_decode(engine)

        def gone(request: gr.Request) -> None:
            engine.worker.waiting.discard(request.session_hash)
            if visit := visits.pop(request.session_hash, None):
                visit.ended.set()

        demo.unload(gone)
    return demo


def launch_options(engine: Engine) -> dict[str, Any]:
    """The page's options for gradio's `launch`, except its address."""
    host = os.environ.get("SPACE_HOST")
    meta = {"og:title": TITLE, "og:description": ABOUT}
    if host and PREVIEW.exists():  # previews need a full address
        gr.set_static_paths([PREVIEW])
        meta["og:image"] = f"https://{host}/gradio_api/file={PREVIEW}"
    head = [f'<link rel="modulepreload" href="demo/{name}">' for name in modules("live/run.js")]
    head += [f'<meta name="description" content="{ABOUT}">']
    head += [f'<meta property="{name}" content="{words}">' for name, words in meta.items()]
    each = LINKS.sessions if host else EACH  # all visitors of a Space share its proxy's address
    device = Device(engine.target, engine.drafter, LINKS, each, signed_in)
    card = ASSETS / "models" / "README.md"
    routes = [
        Mount("/demo", Scripts()), Stage(engine, signed_in).route(),
        Route("/assets/statustracker-{rest}.js", tracker),
        Route(f"/{tli.CARD}", lambda _: FileResponse(card, media_type="text/plain")),
    ]  # fmt: skip
    if not engine.borrows:
        routes.append(device.mount())
    return {
        "app_kwargs": {"routes": routes},
        "head": "".join(head),
        "favicon_path": ICON,
        "theme": theme(),
        "css": style_sheet(),
        "css_paths": CSS,
        "ssr_mode": False,  # a Space would switch it on, without a gain for our scripts
        "max_file_size": 64 * 2**20,  # bytes
        "run_history": False,
        "state_session_capacity": MOST_SESSIONS,
        "footer_links": ["api", "settings"],
    }


def _machine(engine: Engine, target: str) -> Iterator[dict[str, str]]:
    """The models and the machine, once the models are loaded."""
    told = ""
    try:
        while not engine.ready(target):
            if (words := engine.said(target) or "Loading the models.") != told:
                told = words
                yield say(words, "load")
            wait([engine.start(target)], LOOK_EVERY)
        yield say(engine.describe(target))
    except Exception as error:
        yield say(sentence(error), "error")
