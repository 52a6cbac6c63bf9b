"""A visitor's runs: the newest counts, Stop stops, and mistakes become sentences."""

import json
import re
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from types import SimpleNamespace

import pytest

import demo.engine as module
from demo import session
from demo.common.status import SORRY, say
from demo.engine import Engine
from demo.live import tab as live
from demo.live.run import aside, plainly
from demo.session import LINGER, Visit, Visits, guarded
from demo.tli.stops import stops_html
from demo.ui import _forget
from moa_core.decoding.exactness import Exactness
from moa_core.decoding.trace import Prefilled, Trace, Verified

NUMBER, PROMPT = 1, "once upon a time"


def test_stop_ends_the_newest_run_even_before_its_turn():
    visit = Visit()
    visit.begin()
    assert not visit.ended(NUMBER)
    visit.stop()
    assert visit.ended(NUMBER)
    visit.begin()
    assert not visit.ended(visit.number) and visit.ended(NUMBER)


def test_who_waits_is_told_how_many_are_before(loads):
    engine = Engine()
    engine.target()
    assert [engine.line.join(name) for name in "abc"] == [0, 1, 2]
    said = [session._wait(engine, engine.line.before(name))["text"] for name in "abc"]
    assert said[0] == "" and "Another run" in said[1] and said[2].startswith("2 runs are before")
    engine.line.leave("a")
    assert [engine.line.before(name) for name in "bca"] == [0, 1, 0]


def test_the_place_is_told_anew_until_the_turn_has_come(loads):
    engine, visit = Engine(), Visit()
    visit.begin()
    status, clock = session._retell(engine, visit, 2)
    assert visit.waits and status["text"].startswith("2 runs") and "active" not in clock
    visit.stop()
    status, clock = session._retell(engine, visit, 2)
    assert "Your run will not begin" in status["text"] and clock.active is False
    visit.begin()
    visit.begun = visit.number
    status, clock = session._retell(engine, visit, 0)
    assert "text" not in status and clock.active is False and not visit.waits


def test_what_a_line_is_told_keeps_its_date_until_it_is_told_something_else():
    visit = Visit()
    first, again, other = (session._keep(visit, 7, say(words)) for words in ("a", "a", "b"))
    assert first is again and other["at"] > first["at"] and visit.said == {7: other}
    assert session._keep(visit, 7, {"__type__": "update"}) == {"__type__": "update"}
    assert visit.said == {7: other}


SETTINGS = {
    "prompt": PROMPT, "method": "vanilla", "tli": 0, "auto_tree": False,
    "depth": 3, "breadth": 2, "budget": 6,
    "tokens": 20, "temperature": 0.0, "top_p": 1.0, "seed": 0, "pace": "full",
}  # fmt: skip


def outputs_of(engine, visit, **changes):
    """What a run of the Live tab yields: status, view."""
    given = SETTINGS | changes
    work = partial(live._run, engine, list(given))
    return guarded(work, 2, visit, "", *given.values())


def test_a_finished_run_brings_its_charts(loads):
    visit = Visit()
    visit.begin()
    *_, (status, _) = outputs_of(Engine(), visit)
    *charts, raw, file = aside(visit)
    assert status["text"].startswith("20 tokens in 20 target calls, τ 1.00 (19 gained in 19 ")
    assert len(charts) == 3 and all(chart["visible"] for chart in charts)
    assert PROMPT in raw and Path(file["value"]).exists()


def test_a_run_that_is_refused_leaves_what_was_shown(loads):
    visit, engine = Visit(), Engine()
    visit.begin()
    assert all("value" not in one for one in aside(visit))
    list(outputs_of(engine, visit))
    shown = visit.shown
    visit.begin()
    [(status, _)] = outputs_of(engine, visit, prompt="")
    assert status["kind"] == "error" and visit.shown is shown
    assert all(chart["visible"] for chart in aside(visit)[:3])


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("seed", 3.7, "The seed"), ("seed", None, "The seed"), ("depth", 2.5, "Tree depth"),
        ("tokens", 3.7, "The number of new tokens"),
    ],
)  # fmt: skip
def test_a_number_that_is_not_whole_gets_a_sentence(loads, name, value, what):
    visit = Visit()
    visit.begin()
    [(status, _)] = outputs_of(Engine(), visit, **{name: value})
    assert status["kind"] == "error" and status["text"].startswith(f"{what} must be a whole number")


def test_nothing_is_skipped_while_a_run_streams(loads):
    """gradio makes a component anew for every skip."""
    visit = Visit()
    visit.begin()
    *stream, _ = outputs_of(Engine(), visit)
    assert stream and all("text" in status and '"run"' in view for status, view in stream)


def test_a_stopped_run_keeps_its_trace(loads):
    visit = Visit()
    visit.begin()
    outputs = outputs_of(Engine(), visit, tokens=500)
    _, first, *_ = next(outputs)
    visit.stop()
    *_, (status, _) = outputs
    *_, file = aside(visit)
    assert '"first"' in first and "you pressed Stop" in status["text"]
    assert status["kind"] == "done"
    saved = Trace.from_json(Path(file["value"]).read_text())
    assert saved.reason == "stopped" and saved.output_ids == visit.trace.output_ids


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

    monkeypatch.setattr(module, "decode", broken)
    *_, (_, view, *_), (status, *_) = outputs_of(engine, visit)
    assert '"end":"error"' in view
    assert status["text"] == SORRY and not engine.busy
    [*_, (status, *_)] = outputs_of(engine, visit, prompt="")
    assert "empty" in status["text"]


def test_a_saved_trace_opens_without_models_and_shows_the_same(loads, tmp_path):
    visit, other = Visit(), Visit()
    visit.begin()
    list(outputs_of(Engine(), visit))
    *_, file = aside(visit)
    view = visit.shown.feed.ndjson
    loads.clear()
    status, value = live._open(other, file["value"], "full")
    *charts, raw, again = aside(other)
    assert lines(value)[1:] == lines(view)[1:] and loads == []  # but for the id of the run
    assert "Opened: Vanilla for fake" in status["text"] and PROMPT in raw
    assert "value" not in again  # it is already a file of theirs
    assert all(chart["visible"] for chart in charts) and other.trace.about["method"] == "vanilla"


def test_a_trace_with_settings_that_are_gone_opens(loads, tmp_path):
    visit = Visit()
    visit.begin()
    list(outputs_of(Engine(), visit))
    saved = json.loads(visit.trace.to_json())
    saved["about"]["chat"] = {"prompt": PROMPT, "system": "Be kind.", "past": [["Hi", "Hello"]]}
    saved["about"]["link"] = {"name": "busy-wifi", "settings": "rtt=20,p90=100,overload=5"}
    path = tmp_path / "old.json"
    path.write_text(json.dumps(saved))
    status, value = live._open(Visit(), str(path), "full")
    assert status["kind"] == "done" and lines(value)[1:] == lines(visit.shown.feed.ndjson)[1:]


def lines(ndjson):
    return ndjson.strip().split("\n")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\x00\xff\xfe", "not text"), (b"", "not a trace"), (b"[]", "not a trace"),
        (b'{"version": 99}', "version 99"), (b'{"version": 1, "about": {}, "events": []}', "text"),
        (b'{"version": 1, "about": {}, "events": [{"event": "Magic"}]}', "not a trace"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trace_gets_a_sentence_and_changes_nothing(tmp_path, content, word):
    path, visit = tmp_path / "t.json", Visit()
    path.write_bytes(content)
    status, view = live._open(visit, str(path), "full")
    assert word in status["text"] and status["kind"] == "error"
    assert visit.trace is None and "value" not in view


def compared(engine, visit):
    *_, (status, view) = guarded(partial(live._compare, engine), 2, visit)
    return status["text"], view


def test_plain_decoding_is_compared_in_turns_on_demand(loads):
    visit, engine = Visit(), Engine()
    visit.begin()
    assert "Run a prompt first" in compared(engine, visit)[0]
    list(outputs_of(engine, visit))
    assert "is plain decoding itself" in compared(engine, visit)[0]
    list(outputs_of(engine, visit, method="moa"))
    loads.clear()
    said, view = compared(engine, visit)
    *_, told, last = [json.loads(line) for line in lines(view)]
    assert [one.max_new_tokens for one in loads if hasattr(one, "tree")] == [16] * 2 + [20] * 6
    assert last["plain"]["same"] and last["plain"]["ratio"] == "1.00 ×"
    assert re.fullmatch(r"Repeat 3 of 3: .* \(run 6 of 6\)\.", told["measuring"])
    assert "All 20 tokens are plain decoding’s." in said and "3 runs each" in said


def test_a_comparison_that_is_stopped_or_breaks_says_so_in_the_view(loads, monkeypatch):
    visit, engine = Visit(), Engine()
    visit.begin()
    list(outputs_of(engine, visit, method="moa"))
    outputs = guarded(partial(live._compare, engine), 2, visit)
    next(outputs)
    visit.stop()
    *_, (status, view) = outputs
    assert "Stopped before" in status["text"] and lines(view)[-1] == '{"measuring":""}'

    def broken(*_):
        yield Prefilled((1,), 9, 0.5, 0.1)
        raise ZeroDivisionError("secret detail")

    visit.begin()
    monkeypatch.setattr(module, "decode", broken)
    *_, (_, view), (status, _) = guarded(partial(live._compare, engine), 2, visit)
    assert lines(view)[-1] == '{"measuring":""}' and status["text"] == SORRY


SAME = Exactness(None, None)


def measured(base, ours, verdict=SAME):
    """What runs of so many seconds a token come to."""
    runs = [[Trace({"method": "moa-n1"}, [*spent(each)]) for each in all_of]
            for all_of in (base, ours)]  # fmt: skip
    return plainly(*runs, runs[1][0], verdict)


def test_speculation_is_called_slower_where_the_ranges_say_so_and_else_it_is_not():
    found = measured((0.1, 0.11, 0.09), (0.3, 0.31, 0.29))
    assert found["ratio"] == "0.50 ×" and found["slower"]  # with 0.1 s of prefill
    words = "Prefill included, plain 10 (10–11) tokens/s, MoA N=1 5 (5–5): the middle of 3 runs"
    assert found["speed_words"].startswith(words)
    assert "slower than plain decoding" in found["speed_words"]
    assert "The run shown is none of these: it had 5." in found["speed_words"]
    found = measured((0.1, 0.2), (0.15, 0.17))
    assert found["ratio"] == "0.74–1.20 ×" and not found["slower"]  # a range, and no more
    assert "overlap" in found["speed_words"] and "slower" not in found["speed_words"]
    found = measured((0.2,), (0.1,), Exactness(3, 0.25))
    assert found["ratio"] == "1.50 ×" and "slower" not in found["speed_words"]
    assert "from one run each" in found["speed_words"] and "overlap" not in found["speed_words"]
    assert "part at token 4" in found["exact_words"] and "0.25" in found["exact_words"]
    assert measured((0,), (0,))["speed_words"] == "Too short a text to time."


def spent(seconds):
    yield Prefilled((1,), 9, 0.5, 0.1 if seconds else 0.0)
    yield Verified(0, (), 9, (9,), (0.5,), (1.0,), (9,), seconds, 0)


def test_a_trace_from_a_file_cannot_be_compared(loads):
    visit, engine = Visit(), Engine()
    visit.begin()
    list(outputs_of(engine, visit))
    *_, file = aside(visit)
    (live._open(visit, file["value"], "full"))
    assert "opened from a file" in compared(engine, visit)[0]


def test_stops_without_a_drafter_say_so(loads):
    engine = Engine()
    page = stops_html(engine, "moa-n3")
    assert page.count("no drafter</small>") == 2
    assert "No MoA drafter is trained for TLI N = 3" in page
    assert 'class="stops off"' in stops_html(engine, "vanilla")


def test_sessions_without_a_page_are_dropped_when_they_were_not_used_for_a_while():
    """A page that lost its network for a moment goes on; programs never had one."""
    ages = {"here": 9 * LINGER, "left": 2 * LINGER, "back": 1, "program": 2 * LINGER}
    used = {who: datetime.now() - timedelta(seconds=age) for who, age in ages.items()}
    holder = SimpleNamespace(lock=Lock(), session_data=dict(used), time_last_used=dict(used))
    visits = Visits()
    for who in ("here", "left", "back"):
        visits.arrive(SimpleNamespace(session_hash=who))
    visits.leave("left")
    visits.leave("back")
    _forget(SimpleNamespace(state_holder=holder), visits)
    assert set(holder.session_data) == set(holder.time_last_used) == {"here", "back"}
