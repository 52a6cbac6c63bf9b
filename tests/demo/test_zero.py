"""Runs on a borrowed GPU: in a forked process, by plain data; the page notices nothing."""

import os
import threading
import time
from dataclasses import replace
from multiprocessing import get_context

import gradio as gr
import pytest

import demo.engine as module
from demo import zero
from demo.common.elements import SORRY
from demo.compare.bench import run
from demo.compare.tab import comparison_of
from demo.engine import Engine, Request
from demo.lesson import run as lesson
from demo.live.api import answers
from moa_core.decoding.trace import Finished, Prefilled
from moa_core.drafters.registry import without_weights
from tests.demo.compare.test_compare import GIVEN
from tests.demo.conftest import PROMPT
from tests.demo.live.test_live import Page

FORK = get_context("fork")


class Lender:
    """Stands in for the `spaces` package on ZeroGPU: really forks, and really pickles.

    As there, the process is forked at the first call and used again, the task runs in a thread of
    it, and a call that the visitor has no time for is a gr.Error.
    """

    def __init__(self):
        self.left, self.asked, self.process = 10_000.0, [], None

    def lend(self, *args):
        self.asked.append(zero._duration(*args))
        if self.asked[-1] > self.left:
            raise gr.Error("You have exceeded your GPU quota.", title="ZeroGPU quota exceeded")
        if not self.process:
            self.pipe, theirs = FORK.Pipe()
            self.process = FORK.Process(target=self._serve, args=(theirs,), daemon=True)
            self.process.start()
        self.pipe.send(args)
        while answer := self.pipe.recv():
            try:
                yield answer
            except GeneratorExit:
                while self.pipe.recv():
                    pass
                raise

    def _serve(self, pipe):
        while True:
            thread = threading.Thread(target=self._run, args=(pipe, *pipe.recv()))
            thread.start()
            thread.join()

    def _run(self, pipe, *args):
        try:
            for answer in zero._work(*args):
                pipe.send(answer)
        finally:
            pipe.send(None)


@pytest.fixture
def lender(monkeypatch):
    """GPUs are lent here, as far as the program can tell."""
    lender = Lender()
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setattr(zero, "spaces", lender)
    monkeypatch.setattr(zero, "HELD", {})
    monkeypatch.setattr(zero, "_elsewhere", lender.lend)
    yield lender
    if lender.process:
        lender.process.kill()
        lender.process.join()


@pytest.fixture
def engine(loads, lender, monkeypatch):
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


def test_where_no_gpus_are_lent_nothing_is_held(loads, monkeypatch):
    for environment, package in (("", object()), ("true", None)):
        monkeypatch.setenv("SPACES_ZERO_GPU", environment)
        monkeypatch.setattr(zero, "spaces", package)
        engine = Engine()
        zero.hold(engine)
        assert loads == [] and not engine.borrows


def test_everything_is_loaded_at_once_and_in_this_thread(loads, lender, monkeypatch):
    threads, load = [], module.load_target

    def noted(spec, **how):
        threads.append(threading.get_ident())
        return load(spec)

    monkeypatch.setattr(module, "load_target", noted)
    engine = Engine()
    zero.hold(engine)
    assert threads == [threading.get_ident()]  # the package pretends a GPU in the main one alone
    assert sorted(loads) == sorted(["fake", "moa-n0", "moa-n0+ngram", "moa-n1", *without_weights()])
    engine.target().model.parameters = None  # weights are away until a GPU is borrowed
    assert "a GPU borrowed for each run" in engine.describe() and "thread" not in engine.describe()


def test_a_live_run_comes_back_whole_and_its_process_is_used_again(engine, lender):
    page = Page(engine)
    assert page.ask("run")[-2]["end"] == "length"
    first = page.trace.of(Prefilled)[0].prob  # the process that it was made in
    assert first != os.getpid() and page.trace.output_ids == [9] * 20
    assert lender.asked == [zero.borrowed_seconds(20)] and not engine.busy
    page.ask("run", prompt="and then")
    assert page.trace.of(Prefilled)[0].prob == first


def test_every_tab_runs_elsewhere(engine, lender):
    *_, last = run(engine, comparison_of(*GIVEN), lambda: False)
    assert last["status"]["text"] == "All 4 runs are done." and last["tau"] is not None
    assert lender.asked.pop() == zero.borrowed_seconds(2 * 16 + 4 * 20)
    made = engine.prepare(lesson.request(engine, PROMPT, ""))
    assert "MoA N=0" in lesson.drawn("draft", lesson.first_cycles(made))
    *_, (_, figures) = answers(engine, Request(PROMPT, "vanilla", 20))
    assert figures["tokens"] == 20 and figures["reason"] == "length"


def test_stop_reaches_a_run_elsewhere_and_keeps_what_was_done(engine, monkeypatch):
    inner = module.decode

    def slow(*values):
        for event in inner(*values):
            time.sleep(0.01)
            yield event

    monkeypatch.setattr(module, "decode", slow)
    page = Page(engine, lambda line: "first" in line and page.visitor.stop())
    page.ask("run", tokens=500)
    assert page.trace.reason == "stopped"
    assert 0 < len(page.trace.output_ids) < 500 and not engine.busy


def test_mistakes_and_whoever_lends_become_sentences(engine, lender, monkeypatch):
    page, lender.left = Page(engine), 1.0
    *_, said = page.ask("run")
    assert said == {"said": "You have exceeded your GPU quota.", "kind": "error"}
    lender.left = 1e6
    monkeypatch.setenv("MOA_GPU_SECONDS", "30")
    *_, said = page.ask("run", tokens=500)
    assert said["said"] == (
        "A GPU is lent here for at most 30 s, and this may take 35 s: choose fewer tokens, methods "
        "or repeats."
    )

    class Marked(str):
        def __str__(self):
            return "No GPU was available"

    def refuses(*_):
        raise gr.Error(Marked("<a>No GPU</a>"), title="ZeroGPU queue timeout")
        yield

    monkeypatch.setattr(zero, "_elsewhere", refuses)
    *_, said = page.ask("run")
    assert said["said"] == "No GPU was available" and not engine.busy


def test_a_failure_elsewhere_is_told_and_the_process_goes_on(engine, lender, monkeypatch):
    def broken(target, drafter, ids, settings, should_stop):
        yield Prefilled((1,), 9, 0.5, 0.1)
        if settings.max_new_tokens == 7:
            raise ZeroDivisionError("secret detail")
        yield Finished("length", {"prefill": 0.1, "draft": 0.0, "verify": 0.0, "other": 0.0})

    monkeypatch.setattr(module, "decode", broken)
    page = Page(engine)
    *_, end, said = page.ask("run", tokens=7)
    assert said["said"] == SORRY and end["end"] == "error" and not engine.busy
    *_, end, _ = page.ask("run", tokens=8)
    assert end["end"] == "length" and lender.process.is_alive()
