"""Runs whose connection is cut, in the visitor's browser, or here where no browser can draft."""

import asyncio
import json
from dataclasses import replace
from threading import Thread

import pytest
import torch

from demo.engine import FIXED_TREE, Engine, Request
from demo.live import device
from demo.live import run as runs
from demo.live.settings import Settings
from moa_core.decoding.trace import LinkBack, LinkDown, Trace
from moa_core.decoding.tree import AUTO
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from tests.demo.live.test_live import SETTINGS
from tests.models import save_bundle, useful

ASKED = SETTINGS | {"prompt": "Tell me a story.", "method": "moa", "connection": False}
ASKED["here"] = "moa-n0"  # it is ready in the visitor's browser


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    target = save_bundle(folder)
    save_drafter(folder / "eagle3", useful("eagle3", target), target, {}, torch.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(folder))
        yield Engine()


def cut(engine, visit, **changes):
    """What a run without its target yields: the lines of the view at the end."""
    given = Settings(**ASKED | changes)
    [*_, (_, view)] = runs.run(visit, engine, given, lambda: visit.ended(visit.number))
    return [json.loads(line) for line in view.strip().split("\n")]


def cut_here(engine, visit, given):
    """The trace of a run that loses its target on the server, until it has it back."""
    for _, _view in runs.run(visit, engine, given, lambda: False):
        if visit.cut and visit.shown.trace.of(LinkDown):
            runs.reconnect(visit, True)
    return visit.trace


def decoded(engine, count=20):
    """A trace of the run, as a browser reports it."""
    run = engine.prepare(Request(ASKED["prompt"], "moa-n0", count, FIXED_TREE))
    list(run.events)
    return json.dumps({**json.loads(run.trace.to_json()), "about": {"method": "<b>"}})


@pytest.mark.parametrize(
    ("method", "there"),
    [("moa-n0", True), ("moa-n1", True), ("eagle2", True), ("eagle3", False), ("vanilla", False)],
)
def test_moa_and_eagle_2_draft_in_a_browser(engine, method, there):
    request = Request("Hello", method)
    assert device.able(engine, request) is there
    assert not device.able(engine, replace(request, target="another"))


def test_the_page_is_told_what_to_decode_and_its_trace_is_kept(engine, visit):
    [head] = cut(engine, visit, auto_tree=True, cut_at=9)
    assert head["from"] == 9 and head["by"] == "MoA N=0, tree 5-4-11, drafted in this browser"
    asked = head["device"]
    assert asked["name"] == "moa-n0" and asked["count"] == 20 and asked["cutAt"] == 9
    assert asked["prompt"] and asked["tree"] == {"depth": 5, "breadth": 4, "budget": 11}
    waits = Thread(target=lambda: asyncio.run(device.wait(visit)))
    waits.start()
    assert waits.is_alive() and visit.trace is None
    text = decoded(engine)
    device.keep(engine, visit, text)
    waits.join(5)
    assert not waits.is_alive()
    device.keep(engine, visit, decoded(engine, 5))  # once is enough
    assert visit.trace.output_ids == Trace.from_json(text).output_ids
    assert visit.trace.about["method"] == "moa-n0" and visit.trace.about["words"]["output"]


def test_nothing_waits_for_a_run_that_is_decoded_here_or_was_stopped(engine, visit, monkeypatch):
    monkeypatch.setattr("demo.engine.PATIENCE", 0.0)
    asyncio.run(device.wait(visit))
    cut(engine, visit, method="eagle3")
    asyncio.run(device.wait(visit))
    cut(engine, visit)
    visit.stop()
    asyncio.run(device.wait(visit))
    assert visit.trace is not None and not visit.shown.trace.events  # of the run before


def test_a_report_that_is_no_trace_is_refused(engine, visit):
    cut(engine, visit)
    for text in ("", "{}", "[]", '{"version": 1, "about": {}, "events": [1]}'):
        with pytest.raises(UserError):
            device.keep(engine, visit, text)
        assert visit.trace is None


def test_what_cannot_go_on_alone_needs_the_target(engine, visit):
    for method in ("vanilla", "ngram"):
        with pytest.raises(UserError, match="needs the target: turn the connection on"):
            cut(engine, visit, method=method)


def test_what_no_browser_drafts_is_cut_here(engine, visit):
    given = Settings(**ASKED | {"method": "eagle3", "tokens": 40})
    trace = cut_here(engine, visit, given)
    assert trace.of(LinkDown) and trace.of(LinkBack)
    plain = engine.prepare(Request(ASKED["prompt"], "vanilla", 40, AUTO))
    list(plain.events)
    assert trace.output_ids == plain.trace.output_ids


def test_a_cut_before_the_drafter_is_in_the_browser_is_made_here(engine, visit):
    for here in ("", "eagle2"):
        trace = cut_here(engine, visit, Settings(**ASKED | {"here": here, "tokens": 40}))
        assert trace.of(LinkDown) and not visit.shown.device
    head = json.loads(visit.shown.feed.ndjson.split("\n")[0])
    assert head["method"] == "moa-n0" and "in this browser" not in head["by"]
