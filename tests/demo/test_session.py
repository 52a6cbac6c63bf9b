"""Loading once, refusing in sentences, stopping, and taking turns. No weights."""

import threading
from types import SimpleNamespace

import pytest
import torch

import demo.session as session
from demo.session import MOST_NEW_TOKENS, Engine, Request, Visit
from demo.tabs import live
from moa_core.checkpoints import DrafterInfo
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from moa_core.trace import Drafted, Finished, Prefilled, Verified
from moa_core.train.tokenizer import train_tokenizer
from moa_core.tree import DraftTree, TreeSettings

TREE = TreeSettings(3, 2, 6)
NUMBER, PROMPT = 1, "once upon a time"


class FakeTarget:
    name, dtype, device, context = "fake", torch.float32, torch.device("cpu"), 512

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.embed = SimpleNamespace(weight=torch.zeros(len(tokenizer), 1))
        self.eos_ids = (5, 7)
        self.model = SimpleNamespace(parameters=list)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(["once upon a time"]), 300)


@pytest.fixture
def loads(monkeypatch, tokenizer):
    """An engine's surroundings without weights; collects what was loaded."""
    loaded = []

    def load_drafter(spec, target, tli=None):
        loaded.append(spec)
        return Vanilla()

    def decode(target, drafter, ids, settings, should_stop):
        loaded.append(settings)
        yield Prefilled(tuple(ids), 9, 0.5, 0.1)
        for cycle in range(settings.max_new_tokens - 1):
            if should_stop():
                break
            yield Drafted(cycle, 1, DraftTree.only_root(9), 0.01)
            yield Verified(cycle, (), 9, (9,), (0.5,), (1.0,), (9,), 0.01, 0)
        yield Finished("stopped" if should_stop() else "length")

    infos = [DrafterInfo("moa-n0", "moa", 0, TREE, 1), DrafterInfo("moa-n1", "moa", 1, TREE, 1)]
    monkeypatch.setattr(session, "bundled_drafters", lambda: infos)
    monkeypatch.setattr(session, "load_drafter", load_drafter)
    monkeypatch.setattr(
        session, "load_target", lambda spec: loaded.append(spec) or FakeTarget(tokenizer)
    )
    monkeypatch.setattr(session, "decode", decode)
    return loaded


def test_models_are_loaded_once_and_only_when_wanted(loads):
    engine = Engine()
    assert engine.methods and engine.stops == [0, 1] and loads == []
    for _ in range(2):
        list(engine.prepare(Request(PROMPT, "moa", 1)).events)
    assert [item for item in loads if not hasattr(item, "tree")] == [None, "moa-n1"]


def test_the_measured_tree_and_every_eos_reach_the_decoder(loads, tokenizer):
    engine = Engine()
    run = engine.prepare(Request(PROMPT, "moa", 0))
    list(run.events)
    assert loads[-1].tree == TREE and loads[-1].eos_ids == (5, 7)
    about = run.trace.about
    assert (about["target"], about["drafter"], about["method"]) == ("fake", "vanilla", "moa")
    assert about["settings"]["tree"]["budget"] == 6 and about["machine"]["device"] == "cpu"


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (Request("  ", "moa", 1), "empty"),
        (Request("a" * 100_000, "moa", 1), "100,000"),
        (Request("a b " * 4_000, "moa", 1), "Shorten"),
        (Request(PROMPT, "moa", 2), "N = 2"),
        (Request(PROMPT, "eagle2", 0), "EAGLE-2"),
        (Request(PROMPT, "magic", 0), "magic"),
        (Request(PROMPT, "vanilla", 0, MOST_NEW_TOKENS + 1), str(MOST_NEW_TOKENS)),
        (Request(PROMPT, "vanilla", 0, 0), "at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(loads, request_, word):
    with pytest.raises(UserError, match=word) as caught:
        Engine().prepare(request_)
    assert "\n" not in str(caught.value)


def test_a_failed_load_is_told_to_every_run(loads, monkeypatch):
    def fail(spec):
        raise UserError("There is no bundled target.")

    monkeypatch.setattr(session, "load_target", fail)
    engine = Engine()
    for _ in range(2):
        with pytest.raises(UserError, match="no bundled target"):
            engine.prepare(Request(PROMPT, "vanilla"))
    assert engine.ready


def test_a_damaged_bundle_leaves_vanilla(loads, monkeypatch):
    def fail():
        raise UserError("config.json cannot be read.")

    monkeypatch.setattr(session, "bundled_drafters", fail)
    assert Engine().default == ("vanilla", 0)


def test_a_named_drafter_takes_the_bundled_ones_place(loads):
    engine = Engine(drafter="someone/head")
    assert engine.methods == ["given", "vanilla"] and engine.default == ("given", 0)
    list(engine.prepare(Request(PROMPT, "given", 3)).events)
    assert "someone/head" in loads


def test_runs_take_turns(loads):
    engine = Engine()
    first = engine.prepare(Request(PROMPT, "vanilla")).events
    next(first)
    assert engine.busy
    second = engine.prepare(Request(PROMPT, "vanilla", max_new_tokens=2)).events
    done = threading.Event()
    threading.Thread(target=lambda: (list(second), done.set())).start()
    assert not done.wait(0.05)
    first.close()
    assert done.wait(5) and not engine.busy


def test_stop_ends_the_newest_run_even_before_its_turn():
    visit = Visit()
    visit.begin()
    assert not visit.ended(NUMBER)
    visit.stop()
    assert visit.ended(NUMBER)
    visit.begin()
    assert not visit.ended(visit.number) and visit.ended(NUMBER)


def outputs_of(engine, visit, prompt=PROMPT, method="vanilla", tli=0, length=20):
    return live._run(engine, visit, prompt, method, tli, length, 3, 2, 6, 0.0, 1.0, None)


def test_a_stopped_run_keeps_its_trace_and_chart(loads):
    visit = Visit()
    visit.begin()
    outputs = outputs_of(Engine(), visit, length=500)
    _, first, *_ = next(outputs)
    visit.stop()
    *_, (status, _, chart, _) = outputs
    assert '"first"' in first and "you pressed Stop" in status["text"]
    assert status["kind"] == "done" and "value" not in status and chart


def test_a_run_stopped_in_the_queue_never_begins(loads):
    visit = Visit()
    visit.begin()
    visit.stop()
    [(status, *_)] = outputs_of(Engine(), visit)
    assert "before it began" in status["text"] and loads == []


def test_mistakes_and_failures_become_sentences(loads, monkeypatch):
    visit, engine = Visit(), Engine()
    visit.begin()
    [(status, *_)] = outputs_of(engine, visit, prompt="")
    assert status["kind"] == "error" and "empty" in status["text"]

    def broken(*_):
        yield Prefilled((1,), 9, 0.5, 0.1)
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(session, "decode", broken)
    *_, (_, view, _, _), (status, *_) = outputs_of(engine, visit)
    assert '"end":"error"' in view
    assert status["text"] == live.SORRY and not engine.busy
    [*_, (status, *_)] = outputs_of(engine, visit, prompt="")
    assert "empty" in status["text"]


def test_stops_without_a_drafter_say_so(loads):
    engine = Engine()
    page = live.stops_html(engine, "moa", 3)
    assert (
        page.count("no drafter</small>") == 2 and "No MoA drafter is trained for TLI N = 3" in page
    )
    assert 'class="stops off"' in live.stops_html(engine, "vanilla", 0)
