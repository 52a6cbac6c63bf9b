"""The tab Side by side without a browser: what it tells the page, also when stopped or refused."""

from dataclasses import fields
from functools import partial

import pytest

import demo.engine as module
from demo.common.status import SORRY
from demo.compare import tab
from demo.compare.results import Results, notes
from demo.compare.rows import rows
from demo.compare.run import Comparison, Plan
from demo.engine import Engine
from demo.session import Visit, guarded
from moa_core.decoding.exactness import Exactness
from moa_core.decoding.trace import Prefilled
from tests.demo.comparisons import comparison_of, trace_of

PROMPT = "once upon a time"
NAMES = [entry.name for entry in fields(Results)]


def outputs_of(visit, shown=False, methods=("vanilla", "moa-n1"), **changed):
    values = {
        "shown": shown, "prompt": PROMPT, "target": "", "methods": list(methods), "repeats": 2,
        "trees": "own", "depth": 3, "breadth": 2, "budget": 6, "length": 20, "temperature": 0.0,
        "seed": 0, **changed,
    }  # fmt: skip
    work = partial(tab._run, Engine())
    for output in guarded(work, len(NAMES), visit, *values.values()):
        yield dict(zip(NAMES, output, strict=True))


@pytest.fixture
def visit():
    made = Visit()
    made.begin()
    return made


def is_skip(value):
    return isinstance(value, dict) and value.get("__type__") == "update" and len(value) == 1


def test_a_comparison_ends_with_everything_filled(timed, visit, monkeypatch):
    files = []
    write = tab.write_csv
    monkeypatch.setattr(tab, "write_csv", lambda *args: files.append(write(*args)) or files[0])
    first, *_, last = outputs_of(visit)
    assert first["box"]["visible"] is False and first["bar"]["share"] == 0
    assert not any(is_skip(value) for value in last.values())
    assert last["status"]["text"] == "All 4 runs are done." and not last["bar"]["words"]
    assert last["box"]["visible"] is True and last["shown"] is True
    assert list(last["table"]["value"]["Method"]) == ["MoA N=1", "Vanilla"]
    assert last["verdict"]["text"].startswith("On this prompt speculation neither pays nor costs")
    assert "token for token" in last["notes"]["text"]
    assert last["download"] == str(files[0])
    assert files[0].exists()  # as it must be when it comes from another process


def test_the_file_is_there_while_gradio_copies_it(loads, visit):
    for output in outputs_of(visit):
        if not is_skip(output["download"]):
            with open(output["download"], encoding="utf-8") as file:
                assert file.readline().startswith("method,")


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"methods": ["vanilla"]}, "only 1 is chosen"),
        ({"methods": ["a", "b", "c", "d", "e"][:0]}, "none is chosen"),
        ({"prompt": ""}, "empty"),
    ],
)
def test_a_mistake_gets_a_sentence_and_leaves_the_results(loads, visit, changed, word):
    [refused, *_] = outputs = list(outputs_of(visit, shown=True, **changed))
    assert word in outputs[-1]["status"]["text"] and outputs[-1]["status"]["kind"] == "error"
    assert all(is_skip(one["box"]) or one["box"]["visible"] is True for one in outputs)
    assert is_skip(refused["race"])


def test_stop_keeps_what_is_finished(loads, visit):
    outputs = outputs_of(visit, length=500)
    for output in outputs:
        if not is_skip(output["bar"]) and "run 3 of 4" in output["bar"]["words"]:
            visit.stop()
    assert output["status"]["text"] == "Stopped: 2 of 4 runs were finished, and are shown."
    assert list(output["table"]["value"]["Runs"]) == ["1", "1"]


@pytest.mark.parametrize("shown", [True, False])
def test_stopped_before_any_run_brings_earlier_results_back(loads, visit, shown):
    outputs = outputs_of(visit, shown=shown)
    next(outputs)
    visit.stop()
    *_, last = outputs
    assert "nothing new to show" in last["status"]["text"]
    assert last["box"]["visible"] is shown and not last["bar"]["words"]


def test_a_failure_brings_earlier_results_back(loads, visit, monkeypatch):
    def broken(*_):
        yield Prefilled((1,), 9, 0.5, 0.1)
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(module, "decode", broken)
    *_, back, last = outputs_of(visit, shown=True)
    assert back["box"]["visible"] is True and last["status"]["text"] == SORRY


def test_one_tree_for_all_is_the_one_asked_for(loads, visit):
    list(outputs_of(visit, trees="same", depth=2, breadth=1, budget=2))
    assert {(one.tree.depth, one.tree.budget) for one in loads if hasattr(one, "tree")} == {(2, 2)}


def test_trees_sized_automatically_are_said_where_tau_is(loads, visit):
    *_, last = outputs_of(visit, trees="auto")
    assert all(one.tree.auto for one in loads if hasattr(one, "tree"))
    words = ". Trees were sized automatically, each method’s by its own costs and gains"
    assert words in last["notes"]["text"]
    *_, last = outputs_of(visit)
    assert words not in last["notes"]["text"]


def test_notes_name_a_text_that_differs():
    plain = trace_of([1] * 6, drafted=0)
    other = trace_of([3, 3], ids=[1, 2, 3, 99, 5, 6, 7])
    comparison = comparison_of(moa_n1=[other], vanilla=[plain])
    said = notes(comparison, rows(comparison))
    assert "MoA N=1 writes another text than plain decoding from token 4 on" in said
    assert "token for token" not in said and "logit" not in said
    comparison.parted["moa-n1"] = Exactness(3, 0.000031)
    said = notes(comparison, rows(comparison))
    assert "from token 4 on: there plain decoding’s token leads by 3.1e-05 in logit" in said


def test_notes_tell_of_the_plain_run():
    comparison = Comparison(Plan("Hi", ("moa-n1", "eagle2")), reference=[1, 2])
    assert "one run of plain decoding for its text" in notes(comparison, [])
