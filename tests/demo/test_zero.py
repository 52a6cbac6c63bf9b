"""Runs on a borrowed GPU: in a forked process, by pickled copies; the page notices nothing."""

import os
import threading
import time
from dataclasses import replace
from functools import partial

import gradio as gr
import pytest

import demo.engine as module
from demo import space, zero
from demo.common.status import SORRY
from demo.compare import tab as compare
from demo.compare.run import Plan
from demo.engine import Engine, Request
from demo.inside import tab as inside
from demo.lesson import tab as how
from demo.live import tab as live
from demo.live.api import _tokens, _work
from demo.live.run import aside, tokens_compared
from demo.session import Visit, guarded
from demo.tli import tab as tli_sweep
from moa_core.decoding.trace import Finished, Prefilled
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.errors import UserError
from tests.demo import forking_spaces as spaces
from tests.demo.test_session import PROMPT, SETTINGS, lines

NAMES = list(SETTINGS)
LIVE_TOKENS = partial(live._tokens, NAMES.index("tokens"))


@pytest.fixture
def lending(monkeypatch):
    """GPUs are lent here, as far as the program can tell."""
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setattr(zero, "spaces", spaces)
    monkeypatch.setattr(zero, "HELD", {})
    monkeypatch.setattr(zero, "_elsewhere", spaces.GPU(duration=zero._duration)(zero._work))
    yield
    spaces.end()


@pytest.fixture
def engine(loads, lending, monkeypatch):
    """One that holds its models; what runs elsewhere says where."""
    made, inner = Engine(), module.decode

    def decode(*values):
        for event in inner(*values):
            if isinstance(event, Prefilled):
                event = replace(event, prob=float(os.getpid()))
            yield event

    monkeypatch.setattr(module, "decode", decode)
    zero.hold(made)
    return made


@pytest.fixture
def visit():
    made = Visit()
    made.begin()
    return made


def live_run(engine, visit, **changes):
    given = SETTINGS | changes
    work = zero.lend(partial(live._run, engine, NAMES), engine, LIVE_TOKENS)
    return guarded(work, 2, visit, "", *given.values())


def made_in(trace):
    """The process that a trace was made in."""
    return next(iter(trace.of(Prefilled))).prob


def test_where_no_gpus_are_lent_nothing_changes(loads, monkeypatch):
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    engine = Engine()
    zero.hold(engine)
    assert zero.lend(live._run, engine, LIVE_TOKENS) is live._run
    assert loads == [] and not engine.borrows
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")  # and no package
    monkeypatch.setattr(zero, "spaces", None)
    assert zero.lend(live._run, engine, LIVE_TOKENS) is live._run


def test_everything_is_loaded_at_once_and_in_this_thread(loads, lending, monkeypatch):
    threads = []
    load = module.load_target
    monkeypatch.setattr(
        module,
        "load_target",
        lambda spec, **how: threads.append(threading.get_ident()) or load(spec),
    )
    engine = Engine()
    zero.hold(engine)
    assert threads == [threading.get_ident()]  # the package pretends a GPU in the main one alone
    assert sorted(loads) == sorted(["fake", "moa-n0", "moa-n1", *WITHOUT_WEIGHTS])
    engine.target().model.parameters = None  # weights are away until a GPU is borrowed
    assert "a GPU borrowed for each run" in engine.describe() and "thread" not in engine.describe()


def test_a_live_run_comes_back_whole(engine, visit):
    *stream, (status, _) = live_run(engine, visit)
    assert status["text"].startswith("20 tokens in 20 target calls, τ 1.00 (19 gained in 19 ")
    views = [view for _, view in stream]
    assert len(views) >= 1 and lines(views[-1])[-2].startswith('{"end":"length"')
    assert made_in(visit.trace) != os.getpid() and visit.trace.output_ids == [9] * 20
    assert visit.shown.feed.ndjson == views[-1]
    assert visit.shown.feed._text._tokenizer is engine.target().tokenizer
    *charts, raw, file = aside(visit)
    assert all(chart["visible"] for chart in charts) and PROMPT in raw and file["value"]
    assert spaces.asked == [zero.borrowed_seconds(20)] and not engine.busy


def test_a_process_is_used_again(engine, visit):
    list(live_run(engine, visit))
    first = made_in(visit.trace)
    list(live_run(engine, visit, prompt="and then"))
    assert made_in(visit.trace) == first and len(spaces.workers) == 1


def test_the_comparison_with_plain_decoding_goes_on_in_the_same_view(engine, visit):
    list(live_run(engine, visit, method="moa"))
    before, trace = visit.shown.feed.ndjson, visit.trace
    work = zero.lend(partial(live._compare, engine), engine, tokens_compared)
    *_, (status, view) = guarded(work, 2, visit)
    assert view.startswith(before) and '"plain":' in lines(view)[-1]
    assert "All 20 tokens are plain decoding’s." in status["text"]
    assert visit.trace is trace  # nothing new was run, so tabs that look at it stay as they are
    assert spaces.asked[-1] == zero.borrowed_seconds(2 * 16 + 6 * 20)


def test_stop_reaches_a_run_elsewhere_and_keeps_what_was_done(engine, visit, monkeypatch):
    slow(monkeypatch)
    outputs = live_run(engine, visit, tokens=500)
    next(outputs)
    assert engine.busy
    visit.stop()
    *_, (status, _) = outputs
    assert "you pressed Stop" in status["text"] and visit.trace.reason == "stopped"
    assert 0 < len(visit.trace.output_ids) < 500 and not engine.busy


def test_who_leaves_ends_the_run_and_the_next_visitor_has_a_turn(engine, visit, monkeypatch):
    slow(monkeypatch)
    outputs = live_run(engine, visit, tokens=500)
    next(outputs)
    outputs.close()  # as gradio does when the page is closed
    assert not engine.busy and visit.trace is None
    other = Visit()
    other.begin()
    *_, (status, _) = live_run(engine, other, tokens=5)
    assert status["kind"] == "done" and len(spaces.workers) == 1


def slow(monkeypatch):
    inner = module.decode

    def decode(*values):
        for event in inner(*values):
            time.sleep(0.01)
            yield event

    monkeypatch.setattr(module, "decode", decode)


def test_what_a_visitor_began_meanwhile_is_not_overwritten(engine, visit, monkeypatch):
    slow(monkeypatch)
    outputs = live_run(engine, visit, tokens=100)
    next(outputs)
    visit.begin()  # a trace was opened, say
    visit.shown = visit.trace = "theirs"
    list(outputs)
    assert visit.shown == visit.trace == "theirs"


def test_mistakes_failures_and_whoever_lends_become_sentences(engine, visit, monkeypatch):
    [(status, _)] = live_run(engine, visit, prompt="")
    assert status["kind"] == "error" and "empty" in status["text"]
    monkeypatch.setattr(spaces, "left", 1.0)
    [(status, _)] = live_run(engine, visit)
    assert status == {"kind": "error", "text": "You have exceeded your GPU quota."}
    monkeypatch.setattr(spaces, "left", 1e6)
    monkeypatch.setenv("MOA_GPU_SECONDS", "30")
    [(status, _)] = live_run(engine, visit, tokens=500)
    assert status["text"] == (
        "GPUs are lent here for 30 s at a time, and this may take 35 s: ask for fewer tokens, "
        "methods or repeats."
    )
    assert not engine.busy


def test_a_failure_elsewhere_is_told_and_the_process_goes_on(engine, visit, monkeypatch):
    def broken(target, drafter, ids, settings, should_stop):
        yield Prefilled((1,), 9, 0.5, 0.1)
        if settings.max_new_tokens == 7:
            raise ZeroDivisionError("secret detail")
        yield Finished("length", {"prefill": 0.1, "draft": 0.0, "verify": 0.0, "other": 0.0})

    monkeypatch.setattr(module, "decode", broken)
    *_, (_, view), (status, _) = live_run(engine, visit, tokens=7)
    assert status["text"] == SORRY and '"end":"error"' in view and not engine.busy
    *_, (status, _) = live_run(engine, visit, tokens=8)
    assert status["kind"] == "done" and len(spaces.workers) == 1


def test_a_process_that_is_killed_is_told(engine, visit, monkeypatch):
    slow(monkeypatch)
    outputs = live_run(engine, visit, tokens=500)
    next(outputs)
    spaces.workers[0].process.kill()
    *_, (status, _) = outputs
    assert status == {"kind": "error", "text": "GPU task aborted"} and not engine.busy
    *_, (status, _) = live_run(engine, visit, tokens=5)
    assert status["kind"] == "done"


def test_side_by_side_comes_back_with_its_file(timed, lending, visit):
    engine = Engine()
    zero.hold(engine)
    work = zero.lend(partial(compare._run, engine), engine, compare._tokens)
    values = (False, PROMPT, "", ["vanilla", "moa-n1"], 2, "own", 3, 2, 6, 20, 0.0, 0)
    *_, last = guarded(work, len(compare.fields(compare.Results)), visit, *values)
    given = dict(zip([one.name for one in compare.fields(compare.Results)], last, strict=True))
    assert given["status"]["text"] == "All 4 runs are done."
    assert os.path.getsize(given["download"]) and given["tau"] is not None
    assert spaces.asked == [zero.borrowed_seconds(2 * 16 + 4 * 20)]
    assert Plan(PROMPT, ("vanilla", "moa-n1"), 2, 20).tokens == 2 * 16 + 4 * 20


def test_the_sweep_the_lesson_and_the_example_come_back(timed, lending, visit):
    engine = Engine()
    zero.hold(engine)
    work = zero.lend(
        partial(tli_sweep._run, engine), engine, partial(tli_sweep._tokens, engine)
    )  # fmt: skip
    *_, (status, *_) = guarded(work, 10, visit, PROMPT, 20, 1, "same", False, "")
    assert status["text"].startswith("3 runs in ") and status["kind"] == "done"
    work = zero.lend(partial(how._run, engine, "draft"), engine, how._tokens)
    *_, (status, page) = guarded(work, 2, visit, PROMPT, "")
    assert status["kind"] == "done" and "how-tree" in page
    work = zero.lend(partial(inside._example, engine), engine, lambda visit, target: 48)
    *_, (status, *_) = guarded(work, 8, visit, "")
    assert status["kind"] == "note" and len(visit.trace.output_ids) == inside.EXAMPLE_TOKENS


def test_the_endpoint_decodes_elsewhere(engine):
    work = zero.lend(partial(_work, engine), engine, _tokens)
    *_, (_, figures) = work(None, lambda: False, Request(PROMPT, "vanilla", 20))
    assert figures["tokens"] == 20 and figures["reason"] == "length"
    with pytest.raises(UserError, match="empty"):
        list(work(None, lambda: False, Request("", "vanilla", 20)))


def test_the_seconds_to_borrow_follow_the_settings(monkeypatch):
    assert zero.borrowed_seconds(0) == zero.MOVING
    assert zero.borrowed_seconds(100) == zero.MOVING + 100 / zero.RATE
    assert zero.borrowed_seconds(101) == zero.borrowed_seconds(100) + 1  # never too short
    most = space.NUMBERS["MOA_GPU_SECONDS"][0]
    with pytest.raises(UserError, match=f"{most} s at a time"):
        zero.borrowed_seconds(100_000)


def test_what_lenders_say_is_shown_without_their_markup(engine, visit, monkeypatch):
    class Marked(str):
        def __str__(self):
            return "No GPU was available"

    def refuses(*_):
        raise gr.Error(Marked("<a>No GPU</a>"), title="ZeroGPU queue timeout")
        yield

    monkeypatch.setattr(zero, "_elsewhere", refuses)
    [(status, _)] = live_run(engine, visit)
    assert status["text"] == "No GPU was available"
