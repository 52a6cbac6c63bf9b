"""Files that visitors bring, with other values in them: shown, or refused in a sentence."""

import json
from functools import cache

import pytest
from hypothesis import given

from demo.common.downloads import csv_text
from demo.common.figures import stats, tree_of
from demo.common.tokens.view import Feed
from demo.inside.view import packed
from demo.live.charts import CHARTS as LIVE
from demo.live.run import drafted_by, open_trace, summary
from demo.results.charts import CHARTS, View
from demo.results.records import kinds_of, methods_of, opened
from demo.results.table import claims, source, table
from demo.session import Visit
from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.text import RecordedText, record_words
from tests.demo.made_up import figures, recording
from tests.models import speaking_target, useful
from tests.mutations import mutated
from tests.properties import SEEDS, few


@cache
def good_trace() -> str:
    target = speaking_target()
    drafter, settings = useful("moa-n1", target), Settings(12, TreeSettings(3, 2, 5))
    trace = Trace(about(target, drafter, settings) | {"method": "moa-n1"})
    trace.events += decode(target, drafter, [5, 9, 2], settings)
    record_words(trace, target.tokenizer)
    return trace.to_json()


def no_number(name):
    pytest.fail(f"{name} goes to the page")


@given(SEEDS)
def test_a_trace_that_is_let_in_can_be_shown_everywhere(seed):
    """What is sent is JSON that a browser reads, without numbers that are none."""
    try:
        trace = Trace.from_json(json.dumps(mutated(json.loads(good_trace()), seed)))
        text = RecordedText(trace)
    except UserError:
        return
    for line in Feed("r", text, by=drafted_by(trace)).add(trace.events).splitlines():
        json.loads(line, parse_constant=no_number)
    assert summary(trace) and stats(trace)
    tree_of(trace)
    for chart in LIVE.values():
        chart(trace).to_json().encode()
    try:
        json.loads(packed(trace), parse_constant=no_number)
    except UserError as error:
        assert "damaged" in str(error)


@few(2)
@given(SEEDS)
def test_a_recording_that_is_let_in_can_be_shown(tmp_path_factory, seed):
    mine = recording("Mine", "float32", "Loom", moa_n1=figures(3.3, 44.0, kinds=("a", "b")),
                     eagle2=figures(2.2, 33.0))  # fmt: skip
    path = tmp_path_factory.mktemp("recording") / "mine.json"
    path.write_text(json.dumps(mutated(mine.results, seed)))
    try:
        found = opened(str(path), ())
    except UserError:
        return
    shelf = (found,)
    for kind in (None, *kinds_of(shelf)):
        view = View(shelf, tuple(methods_of(shelf)), kind)
        words = [source(view, name, draw(view)) for name, draw in CHARTS.items()]
        assert "<img" not in claims(view) + "".join(words)
        for draw in CHARTS.values():
            if (figure := draw(view).figure) is not None:
                figure.to_json()
        csv_text(table(view))


@pytest.mark.parametrize("name", ["../../x.json", "=1+1.json", "%s{0}.json", "<img src=x>.json"])
def test_a_file_s_name_is_only_a_name(tmp_path, name):
    path = tmp_path / name.replace("/", "_")
    path.write_text(good_trace())
    status, view = open_trace(Visit(), str(path), "full")
    assert status["kind"] == "done" and view
    path.write_text("{}")
    with pytest.raises(UserError, match="not a trace"):
        open_trace(Visit(), str(path), "full")


def test_a_recording_s_text_that_cannot_be_sent_is_made_good(tmp_path):
    """Found by trying: a lone surrogate ended pandas, and with it what the tab shows."""
    mine = recording("Mine", "float32", "Loom\ud800", **{"moa_n1\ud800": figures(3.3, 44.0)})
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(mine.results))
    found = opened(str(path), ())
    assert len(table(View((found,), tuple(methods_of((found,)))))) and "Loom?" in found.machine
    deep = json.dumps(mine.results | {"settings": 1})
    path.write_text(deep.replace('"settings": 1', f'"settings": {"[" * 99}{"]" * 99}'))
    with pytest.raises(UserError, match="too deep"):
        opened(str(path), ())


@pytest.mark.parametrize("seconds", [1e-320, -1.0])
def test_a_run_of_no_time_has_no_speed(seconds):
    data = json.loads(good_trace())
    data["events"] = [*data["events"][:3], {**data["events"][-1], "seconds": {"draft": seconds}}]
    trace = Trace.from_json(json.dumps(data))
    assert stats(trace)["rate"] is None and stats(trace)["shares"] is None
