"""Benchmarks: choosing among recordings, a visitor's own beside them; files that visitors bring."""

import json
from functools import cache

import pandas as pd
import pytest
from hypothesis import given

from demo.common.downloads import csv_text
from demo.common.figures import stats, tree_of
from demo.common.tokens.view import Feed
from demo.inside.view import packed
from demo.live.charts import CHARTS as LIVE
from demo.live.charts import Lane
from demo.live.run import drafted_by, open_trace, summary
from demo.results import table as module
from demo.results.charts import CHARTS, View
from demo.results.records import (
    MOST_OPENED,
    Chosen,
    beside,
    first_choice,
    kinds_of,
    matching,
    methods_of,
    nothing,
    opened,
)
from demo.results.tab import updates
from demo.results.table import claims, paper_section, source, table
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

ONE = recording("One")
TWO = recording("Two", "bfloat16", "Loom", eagle2=figures(2, 9), moa_n1=figures(3, 8))
BOTH = (ONE, TWO)


def test_to_begin_with_there_is_one_recording_and_one_more_stands_beside():
    chosen = first_choice(BOTH)
    assert chosen.recordings == ["One"] and matching(BOTH, chosen) == [ONE]
    assert chosen.methods == methods_of(BOTH) == ["vanilla", "moa-n1", "eagle2"]
    assert kinds_of(BOTH) == ["a", "b"] and first_choice(()).recordings == []
    added = recording("Three", eagle2=figures(2, 9), glide=figures(2, 9, kinds=("c",)))
    chosen = Chosen(["One"], precision="float32", machine=ONE.machine, methods=["moa-n1"])
    there, after = beside(BOTH, chosen, added)
    assert there == (ONE, TWO, added) and kinds_of(there) == ["a", "b", "c"]
    assert after.recordings == ["One", "Three"] and after.methods == ["moa-n1", "glide"]
    assert matching(there, after) == [ONE, added]
    assert methods_of(there)[:3] == methods_of(BOTH)  # nothing that was offered is taken away


def test_machine_and_precision_narrow_down_and_every_empty_choice_has_its_sentence():
    every = ["One", "Two"]
    assert matching(BOTH, Chosen(every, machine=ONE.machine)) == [ONE]
    assert matching(BOTH, Chosen(every, precision="bfloat16")) == [TWO]
    assert matching(BOTH, Chosen(every, machine=ONE.machine, precision="bfloat16")) == []
    none = [
        nothing((), Chosen([]), []), nothing(BOTH, Chosen([]), []),
        nothing(BOTH, Chosen(["One"], precision="x"), []),
        nothing(BOTH, Chosen(["One"], methods=[]), [ONE]),
        nothing(BOTH, Chosen(["One"], methods=["vanilla"]), [ONE]),
    ]  # fmt: skip
    assert len(set(none)) == len(none) and all(words.endswith(".") for words in none)
    empty, *_, file = updates(BOTH, Chosen([]))
    assert none[1] in empty["value"] and empty["visible"] and not file["visible"]
    empty, *_, file = updates(BOTH, first_choice(BOTH))
    assert not empty["visible"] and file["visible"]


def test_the_table_has_what_the_charts_show():
    rows = table(View((ONE,), ("moa-n1",)))
    assert list(rows["kind"]) == ["all", "a", "b"] and set(rows["method"]) == {"moa-n1"}
    assert list(rows["τ"]) == [3.0, 3.1, 3.2] and list(rows["tokens/s"]) == [20.0, 21.0, 22.0]
    expected = {
        "draft ms": 2, "verify ms": 3, "other ms": 1, "accepted ≥ 1": 0.5, "accepted ≥ 2": 0.25,
        "machine": "CPU, Abacus, 2 threads", "precision": "float32", "commit": "abc1234",
        "same text as plain": 1, "joules/token": 0.25, "updates": 325, "tree": "2-1-2",
        "τ low": 2.9, "τ high": 3.2,
    }  # fmt: skip
    assert {name: rows.iloc[0][name] for name in expected} == expected
    assert rows["updates"].isna().tolist() == [False, True, True]
    assert "repeated 8-grams" not in rows  # nobody has it
    assert list(table(View((ONE,), ("moa-n1",), "b"))["τ"]) == [3.2]
    assert not len(table(View((ONE,), ())))


@pytest.mark.parametrize("odd", ["x", [], {}, True, float("nan"), [None, "a"]])
def test_no_value_of_another_type_breaks_the_table(odd):
    one = recording(odd=dict.fromkeys(figures(2, 9), odd), fine=figures(3, 9))
    rows = table(View((one,), ("odd", "fine")))
    assert rows["τ"].isna().tolist() == [True, False, False, False]


def test_the_csv_reads_back_and_hides_no_formula(tmp_path):
    odd = recording('=1+2,"x"', **{"@m": figures(2, 9)})
    path = tmp_path / "t.csv"
    path.write_text(csv_text(table(View((ONE, odd), ("moa-n1", "@m")))), encoding="utf-8")
    read = pd.read_csv(path)
    assert list(read["τ"][:3]) == [3.0, 3.1, 3.2]
    assert read["recording"].iloc[-1] == '\'=1+2,"x"' and read["method"].iloc[-1] == "'@m"


def test_each_chart_says_what_when_where_and_how():
    view = View(BOTH, ("moa-n1",))
    for name, draw in CHARTS.items():
        words = source(view, name, draw(view))
        for one in BOTH:
            for part in (one.name, one.date, one.machine, one.precision, one.commit, one.command):
                assert part in words
    assert "<summary>Command, rebuilt from the settings</summary>" in words
    given = recording()
    given.results["command"] = "python -m moa_core bench --limit 2 --out there"
    view = View((given,), ("moa-n1",))
    words = source(view, "tau", CHARTS["tau"](view))
    assert "<summary>Command</summary>" in words and "rebuilt" not in words
    assert ">python -m moa_core bench --limit 2 --out there</pre>" in words


def test_words_from_elsewhere_are_escaped():
    hostile = "<script>alert(1)</script>"
    one = recording(hostile, hostile, hostile, **{hostile: figures(2, 9, kinds=(hostile,))})
    one.results.update(command=hostile, commit=hostile, date=hostile)
    view = View((one,), (hostile, "x"))
    words = claims(view) + "".join(source(view, name, draw(view)) for name, draw in CHARTS.items())
    assert "<script" not in words and "&lt;script" in words


def test_the_papers_table_is_apart_and_without_the_flagged_cells(monkeypatch):
    section = paper_section()
    assert section.count(">†<") == 3 and section.count(" ‡</td>") == 3
    assert section.count("1.83 × / 4.19") == 1
    assert "1.98 × / 4.56" in section and "1.82 × / 3.65" in section  # without GSM8K
    assert "Not measured here" in section and "2410.03804" in section
    monkeypatch.setattr(module, "published", lambda: None)
    assert paper_section() == ""


# ---- files that visitors bring ----


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
        chart([Lane.of("moa-n1", [trace])], "").to_json().encode()
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
        there = (opened(str(path), ()),)
    except UserError:
        return
    for kind in (None, *kinds_of(there)):
        view = View(there, tuple(methods_of(there)), kind)
        charts = {name: draw(view) for name, draw in CHARTS.items()}
        words = [source(view, name, chart) for name, chart in charts.items()]
        assert "<img" not in claims(view) + "".join(words)
        for chart in charts.values():
            if chart.figure is not None:
                chart.figure.to_json()
        csv_text(table(view))


def test_an_opened_file_gets_a_name_of_its_own_and_text_that_can_be_sent(tmp_path):
    path, there = tmp_path / "summary.json", BOTH
    path.write_text(json.dumps(ONE.results), encoding="utf-8")
    for name in ("Yours: summary", "Yours: summary (2)"):
        added = opened(str(path), there)
        assert (added.name, added.opened) == (name, True) and added.methods == ONE.methods
        there = (*there, added)
    with pytest.raises(UserError, match="open already"):
        opened(str(path), (added,) * MOST_OPENED)
    # A lone surrogate ended pandas, and with it what the tab shows.
    mine = recording("Mine", "float32", "Loom\ud800", **{"moa_n1\ud800": figures(3.3, 44.0)})
    path.write_text(json.dumps(mine.results))
    found = opened(str(path), ())
    assert len(table(View((found,), tuple(methods_of((found,)))))) and "Loom?" in found.machine
    deep = json.dumps(mine.results | {"settings": 1})
    path.write_text(deep.replace('"settings": 1', f'"settings": {"[" * 99}{"]" * 99}'))
    with pytest.raises(UserError, match="too deep"):
        opened(str(path), ())


@pytest.mark.parametrize("name", ["../../x.json", "=1+1.json", "%s{0}.json", "<img src=x>.json"])
def test_a_file_s_name_is_only_a_name(tmp_path, name):
    path = tmp_path / name.replace("/", "_")
    path.write_text(good_trace())
    status, view = open_trace(Visit(), str(path), "full")
    assert status["kind"] == "done" and view
    path.write_text("{}")
    with pytest.raises(UserError, match="not a trace"):
        open_trace(Visit(), str(path), "full")


@pytest.mark.parametrize("seconds", [1e-320, -1.0])
def test_a_run_of_no_time_has_no_speed(seconds):
    data = json.loads(good_trace())
    data["events"] = [*data["events"][:3], {**data["events"][-1], "seconds": {"draft": seconds}}]
    trace = Trace.from_json(json.dumps(data))
    assert stats(trace)["rate"] is None and stats(trace)["shares"] is None
