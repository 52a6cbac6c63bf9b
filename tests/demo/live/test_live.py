"""The Live tab: runs, saved traces, the comparison with plain decoding, settings and links."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from demo.live.follow import compared, follow, ratio
from demo.live.run import saved

from demo.common.elements import SORRY
from demo.engine import FIXED_TREE, Engine, Request
from demo.live import run as runs
from demo.live import settings as live
from demo.live.settings import LINKED, Settings
from demo.live.tab import ID, open_file
from demo.session import Visit, guarded
from demo.ui import TABS
from moa_core.decoding.trace import Prefilled, Trace, Verified
from tests.demo.conftest import PROMPT, unset

SETTINGS = {
    "target": "", "prompt": PROMPT, "method": "vanilla", "tli": 0, "auto_tree": False,
    "depth": 3, "breadth": 2, "budget": 6, "tokens": 20, "temperature": 0.0, "top_p": 1.0,
    "seed": 0,
}  # fmt: skip


def live_run(engine, visit, **changes):
    """What a run of the tab yields: status, view."""

    def work(visit, stop):
        given = Settings(**SETTINGS | changes)
        yield from runs.run(visit, engine, given, stop)

    return guarded(work, 2, visit)


def lines(ndjson):
    return ndjson.strip().split("\n")


@pytest.fixture
def engine(loads):
    return Engine()


def test_a_finished_run_brings_its_file_and_others_bring_a_sentence(engine, visit, breaks):
    assert "value" not in saved(visit)
    *stream, (status, view) = live_run(engine, visit)
    # gradio makes a component anew for every skip.
    assert stream and all("text" in said and '"run"' in view for said, view in stream)
    file = saved(visit)
    assert status["text"] == "" and '"end":"length"' in view
    assert Path(file["value"]).exists()
    shown = visit.shown
    [(status, _)] = live_run(engine, visit, prompt="")
    assert status["kind"] == "error" and "empty" in status["text"] and visit.shown is shown
    breaks()
    *_, (_, view), (status, _) = live_run(engine, visit)
    assert '"end":"error"' in view and status["text"] == SORRY and not engine.busy


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("seed", 3.7, "The seed"), ("seed", None, "The seed"), ("depth", 2.5, "Tree depth"),
        ("tokens", 3.7, "The number of new tokens"),
    ],
)  # fmt: skip
def test_a_number_that_is_not_whole_gets_a_sentence(engine, visit, name, value, what):
    [(status, _)] = live_run(engine, visit, **{name: value})
    assert status["kind"] == "error" and status["text"].startswith(f"{what} must be a whole number")


def test_a_stopped_run_keeps_its_trace_and_one_in_the_queue_never_begins(engine, visit, loads):
    outputs = live_run(engine, visit, tokens=500)
    _, first = next(outputs)
    visit.stop()
    *_, (_, view) = outputs
    file = saved(visit)
    assert '"first"' in first and "stopped by you" in view
    again = Trace.from_json(Path(file["value"]).read_text())
    assert again.reason == "stopped" and again.output_ids == visit.trace.output_ids
    loads.clear()
    visit.begin()
    visit.stop()
    [(status, *_)] = live_run(engine, visit)
    assert "before it began" in status["text"] and loads == []


def test_a_saved_trace_opens_without_models_and_shows_the_same(engine, visit, loads):
    list(live_run(engine, visit))
    file = saved(visit)
    view = visit.shown.feed.ndjson
    loads.clear()
    other = Visit()
    status, value = open_file(other, file["value"])
    assert lines(value)[1:] == lines(view)[1:] and loads == []  # but for the id of the run
    assert "Opened: Plain for fake" in status["text"]
    assert "value" not in saved(other) and followed(engine, other) == []


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\x00\xff\xfe", "not text"), (b"[]", "not a trace"), (b'{"version": 99}', "version 99"),
        (b'{"version": 1, "about": {}, "events": []}', "text"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trace_gets_a_sentence_and_changes_nothing(tmp_path, content, word):
    path, visit = tmp_path / "t.json", Visit()
    path.write_bytes(content)
    status, view = open_file(visit, str(path))
    assert word in status["text"] and status["kind"] == "error"
    assert visit.trace is None and "value" not in view


def followed(engine, visit):
    views = [view for view, *_ in follow(visit, engine) if isinstance(view, str)]
    return [json.loads(lines(view)[-1])["plain"] for view in views]


def test_plain_decoding_and_the_rival_follow_a_run_by_themselves(engine, visit, loads):
    list(live_run(engine, visit, method="moa"))
    loads.clear()
    awaited, first, last = followed(engine, visit)
    lengths = [one.max_new_tokens for one in loads if hasattr(one, "tree")]
    assert lengths == [16] * 2 + [20] * 6  # both methods in turns, after a short run of each
    assert awaited["measuring"] and awaited["same"] is None and awaited["charts"] == []
    assert first["measuring"] and first["same"] and first["calls"] == 20
    assert "over_plain" not in first and "measuring" not in last
    assert last["over_plain"] == {"times": 1, "close": False} and last["same"]
    assert not engine.worker.gives_way


def test_what_follows_a_run_gives_way_to_the_next(engine, visit, loads):
    list(live_run(engine, visit, method="moa"))
    found = follow(visit, engine)
    next(found)
    engine.worker.join("somebody")
    [(view, *_)] = found
    assert "measuring" not in json.loads(lines(view)[-1])["plain"] and not engine.worker.gives_way
    engine.worker.leave("somebody")
    found = follow(visit, engine)
    next(found)
    visit.begin()
    assert list(found) == []


def test_no_speed_is_claimed_where_the_machine_was_shared(engine, visit, loads):
    list(live_run(engine, visit, method="moa"))
    found = follow(visit, engine)
    next(found), next(found)
    list(engine.prepare(replace(visit.shown.request, max_new_tokens=4)).events)
    [(view, acceptance, _)] = found
    known = json.loads(lines(view)[-1])["plain"]
    assert "over_plain" not in known and known["charts"] == ["acceptance"]
    assert acceptance.data


def test_nothing_follows_where_it_cannot_be_compared(engine, visit, loads, monkeypatch):
    assert followed(engine, visit) == []  # nothing has run
    outputs = live_run(engine, visit, tokens=500)
    next(outputs)
    visit.stop()
    list(outputs)
    assert followed(engine, visit) == []
    visit.begin()
    list(live_run(engine, visit))
    [*_, own] = followed(engine, visit)
    assert own["calls"] is None and own["rival"] is None  # plain decoding itself
    visit.begin()
    list(live_run(engine, visit, prompt=""))
    assert followed(engine, visit) == []  # refused: what is shown was compared already
    engine.borrows = True
    visit.shown.number = visit.number
    assert followed(engine, visit) == []


def spent(seconds):
    yield Prefilled((1,), 9, 0.5, 0.1 if seconds else 0.0)
    yield Verified(0, (), 9, (9,), (0.5,), (1.0,), (9,), seconds, 0)


@pytest.mark.parametrize(
    ("base", "ours", "found"),
    [
        ((0.1, 0.11, 0.09), (0.3, 0.31, 0.29), {"times": 0.5, "close": False}),
        ((0.1, 0.2), (0.15, 0.17), {"times": 0.924, "close": True}),
        ((0.2,), (0.1,), {"times": 1.5, "close": False}),
        ((0,), (0,), None),
    ],
)
def test_how_speeds_are_compared(base, ours, found):
    traces = [[Trace({}, [*spent(each)]) for each in all_of] for all_of in (ours, base)]
    assert ratio(*traces) == found


def test_speed_is_told_over_plain_decoding_and_over_the_rival(engine):
    times = {"moa-n0": 0.1, "eagle2": 0.2, "vanilla": 0.3}  # after a prefill of 0.1 s
    traces = {name: [Trace({}, [*spent(each)])] for name, each in times.items()}
    request = Request(PROMPT, "moa-n0", 2, FIXED_TREE)
    said = compared(engine, request, traces["moa-n0"][0], traces, timed=True).plain
    assert said["over_plain"] == {"times": 2, "close": False} and said["rival"] == "EAGLE-2"
    assert said["over_rival"] == {"times": 1.5, "close": False}


# ---- settings ----


def address(engine, **query):
    request = SimpleNamespace(query_params=query)
    status, _, *values = live.from_address(engine, [tab.ID for tab in TABS], request)
    return status, dict(zip(LINKED[1:], values, strict=True))


def test_an_address_sets_what_it_names(engine):
    status, found = address(engine, method="moa-n1", prompt="Hi", depth="2", tab="live")
    assert unset(status) and unset(found["tokens"])
    assert (found["prompt"], found["method"], found["tli"]["value"]) == ("Hi", "moa", 1)
    assert found["depth"] == 2 and unset(found["breadth"]) and unset(found["auto_tree"])
    for query, expected in (({"auto_tree": "1", "depth": "2"}, True), ({"auto_tree": "0"}, False)):
        assert address(engine, **query)[1]["auto_tree"] is expected
    for query in ({"tab": "live"}, {"tab": "compare", "method": "moa-n7", "tokens": "20"}):
        status, found = address(engine, **query)
        assert unset(status) and all(unset(value) for value in found.values())
    assert address(engine, tokens="20")[1]["tokens"] == 20  # a bare one opens Live


def test_what_an_address_cannot_set_is_said(engine):
    status, found = address(engine, method="moa-n7", tokens="x", prompt="Hi")
    for word in ("N = 7", "tokens must be a number"):
        assert word in status["text"]
    assert found["prompt"] == "Hi" and unset(found["method"])
    status, found = address(engine, tab="nowhere", target="x", method="gpt9", tokens="20")
    assert status["text"].startswith(
        "Part of the address was not used: tab must be one of live, compare, "
    )
    assert "target must be fake;" in status["text"] and found["tokens"] == 20
    assert "no gpt9 drafter for this target: choose from moa-n0, moa-n1, " in status["text"]
    assert unset(address(engine, target="fake")[0])
    status, found = address(engine, tli="9", methd="x", tokens="20", __theme="dark", view="api")
    assert "not used: no setting is named tli, methd." in status["text"] and found["tokens"] == 20


def test_a_link_carries_the_settings_and_refuses_long_prompts():
    given = SETTINGS | {"target": "tiny", "prompt": "A & B", "method": "moa", "tli": 2}
    status, query = live.link(ID, *given.values())
    assert query.startswith("?tab=live&target=tiny&method=moa-n2&prompt=A+%26+B&tokens=20")
    assert query.endswith("auto_tree=0") and status["kind"] == "done"
    status, query = live.link(ID, *(given | {"prompt": "x" * 2000}).values())
    assert query == "" and "1,500 characters" in status["text"]
