"""Benchmarks: recorded figures in tables and words; traces that visitors bring."""

import json

import pytest
from hypothesis import given

from demo.common.figures import recorded_tree
from demo.common.tokens.view import Feed
from demo.inside.view import packed
from demo.live.measure import figures as live
from demo.results.table import headline, paper_table, paper_words, table
from moa_core.decoding.trace import Trace
from moa_core.errors import UserError
from moa_core.text import RecordedText
from tests.demo.results.made_up import figures, recording
from tests.models import worded_trace
from tests.mutations import mutated
from tests.properties import SEEDS

ONE = recording("One")


def test_the_table_has_what_the_charts_show():
    rows = table(ONE)
    assert list(rows["kind"]) == ["all", "a", "b"] * 2
    rows = rows[rows["method"] == "MoA N=1"]
    assert list(rows["τ"]) == [3.0, 3.1, 3.2] and list(rows["tokens/s"]) == [20.0, 21.0, 22.0]
    expected = {"same text as plain": 1, "tree": "2-1-2", "τ low": 2.9, "τ high": 3.2}
    assert {name: rows.iloc[0][name] for name in expected} == expected
    assert "repeated 8-grams" not in rows  # nobody has it


def test_the_headline_says_what_when_where_and_how_and_escapes_it():
    hostile = "<script>alert(1)</script>"
    ONE.results["command"] = "python -m moa_core bench --limit 2 --out there"
    words = headline(ONE)
    for part in (ONE.name, ONE.date, ONE.machine, ONE.precision, ONE.commit, ONE.command):
        assert part in words
    odd = recording(hostile, hostile, hostile, **{hostile: figures(2, 9, kinds=(hostile,))})
    odd.results.update(command=hostile, commit=hostile, date=hostile)
    assert "<script" not in headline(odd) and "&lt;script" in headline(odd)


def test_the_papers_table_is_apart_and_without_the_flagged_cells():
    cells = [str(cell) for row in paper_table().itertuples(index=False) for cell in row]
    assert cells.count("†") == 3 and sum(cell.endswith(" ‡") for cell in cells) == 3
    assert cells.count("1.83 × / 4.19") == 1
    assert "1.98 × / 4.56" in cells and "1.82 × / 3.65" in cells  # without GSM8K
    above, below = paper_words()
    assert "Not measured here" in above and "2410.03804" in below


# ---- files that visitors bring ----


def no_number(name):
    pytest.fail(f"{name} goes to the page")


@given(SEEDS)
def test_a_trace_that_is_let_in_can_be_shown_everywhere(seed):
    """What is sent is JSON that a browser reads, without numbers that are none."""
    try:
        trace = Trace.from_json(json.dumps(mutated(json.loads(worded_trace()), seed)))
        text = RecordedText(trace)
    except UserError:
        return
    feed = Feed(text, "drafter")
    json.loads(json.dumps([feed.head("r", trace), *feed.lines(trace.events)]))
    recorded_tree(trace)
    live(trace.about.get("method", ""), {trace.about.get("method", ""): [trace]})
    try:
        json.loads(packed(trace), parse_constant=no_number)
    except UserError as error:
        assert "damaged" in str(error)
