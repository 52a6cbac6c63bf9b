"""The stage's actions: run, cut the link, show a saved trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr

from demo.common.elements import STOPPING, say
from demo.common.figures import name_of, tree_of
from demo.common.methods import label
from demo.common.tokens.view import Feed, paced
from demo.engine import FIXED_TREE, Engine, Request
from demo.live import device
from demo.live.settings import Settings
from demo.session import Visit
from moa_core.decoding.cuttable import Cuttable
from moa_core.decoding.trace import Trace
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import RecordedText, TokenText, record_words

LARGEST = 20_000_000  # bytes of a trace to open
HEARD = 12  # tokens with the target, if the link is cut before the run
ALONE = 15  # tokens per second offline: slow enough to read, and to reconnect in time
Stop = Callable[[], bool]


@dataclass
class Shown:
    """What the view shows, and what is needed to extend or repeat it.

    request  None: from a file
    cut      whether its link was cut
    number   of the visit's run
    device   whether the visitor's browser decodes it
    """

    feed: Feed
    trace: Trace
    request: Request | None
    cut: bool = False
    number: int = 0
    device: bool = False


def run(visit: Visit, engine: Engine, asked: Settings, stop: Stop) -> Iterator[Any]:
    """Decode live: yields (status, view).

    A run without its target is decoded in the visitor's browser, or here if a browser cannot.
    """
    request, alone = asked.request, not asked.connection
    after = int(asked.cut_at) or HEARD
    drafts = device.able(engine, request)
    there = alone and drafts and asked.here == request.method
    if there and request.tree.auto:
        request = replace(request, tree=FIXED_TREE)

    def link(target: Target, drafter: Drafter) -> Cuttable:
        visit.cut = Cuttable(target, drafter, after, 1 / ALONE)
        return visit.cut

    prepared = engine.prepare(request, stop, link if alone and not there else None)
    target, trace = prepared.target, prepared.trace
    start = int(asked.cut_at) if alone else 0
    by = drafted_by(trace) + (", drafted in this browser" if there else "")
    more: dict[str, Any] = {"method": request.method} if drafts else {}
    if there:
        more["device"] = device.asked(request, prepared.prompt_ids, after)
    feed = Feed(token_hex(4), TokenText(target.tokenizer), by, start, **more)
    visit.shown = Shown(feed, trace, request, alone, visit.number, there)
    if there:
        yield say("", "done"), feed.ndjson
        return
    # No update is skipped while it streams: see `session.connect`.
    try:
        for batch in paced(prepared.events):
            yield say(STOPPING if stop() else ""), feed.add(batch)
    except Exception:
        yield gr.skip(), feed.broken()
        raise
    finally:
        visit.cut = None
    record_words(trace, target.tokenizer)
    visit.trace, visit.rival = trace, None
    yield say("", "done"), feed.ndjson


def reconnect(visit: Visit | None, connected: bool) -> None:
    """After the switch is turned on: give an offline run its target back."""
    if connected and visit is not None and visit.cut is not None:
        visit.cut.restore()


def open_trace(visit: Visit, path: str | None) -> tuple[Any, Any]:
    """Show a saved trace, without any model: (status, view)."""
    if path is None:
        return gr.skip(), gr.skip()
    if Path(path).stat().st_size > LARGEST:
        raise UserError(f"This file is too large to open: the limit is {LARGEST // 10**6} MB.")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError("This file is not a trace of this program (it is not text).") from None
    trace = Trace.from_json(text)
    feed = feed_of(trace)
    visit.begin()  # ends a run in progress: the view now shows something else
    visit.shown, visit.trace, visit.rival = Shown(feed, trace, None), trace, None
    target = trace.about.get("target", "a target")
    about = f"Opened: {method_of(trace)} for {target}, recorded elsewhere or earlier."
    return say(about, "done"), feed.ndjson


def feed_of(trace: Trace) -> Feed:
    feed = Feed(token_hex(4), RecordedText(trace), drafted_by(trace))
    feed.add(trace.events)
    return feed


def saved(visit: Visit) -> Any:
    shown = visit.shown
    if shown is None or not shown.request or "words" not in shown.trace.about:
        return gr.skip()
    trace = shown.trace
    path = download(f"trace-{trace.about.get('method', 'run')}.json", trace.to_json())
    return gr.update(value=str(path), interactive=True)


def download(name: str, text: str) -> Path:
    """The path of a file with this name and text; an equal file is written once."""
    folder = Path(_folder().name) / sha256(text.encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="moa-files-")  # gone when this process ends


def method_of(trace: Trace) -> str:
    return label(name_of(trace))


def drafted_by(trace: Trace) -> str:
    """Method and tree: τ depends on both."""
    tree = tree_of(trace)
    if tree and tree.auto:
        return f"{method_of(trace)}, trees sized automatically"
    return method_of(trace) + (f", tree {tree}" if tree else "")
