"""From runs to rows, to the table and to the file."""

import csv
import json
from dataclasses import replace

import pytest

from demo.compare.rows import middle, record, rows, table, write_csv
from moa_core.decoding.exactness import Exactness
from moa_core.decoding.tree import AUTO
from tests.demo.comparisons import TREE, comparison_of, row_of, trace_of, usual_comparison


def test_a_row_holds_its_middle_run_and_the_range_of_all():
    moa, eagle, plain = rows(usual_comparison())
    assert [row.label for row in (moa, eagle, plain)] == ["MoA N=1", "EAGLE-2", "Vanilla"]
    assert (moa.tau.middle, moa.tokens, moa.calls, moa.cycles, moa.runs) == (3, 7, 3, 2, 3)
    assert moa.rate.middle == pytest.approx(7 / 0.27)  # the prefill takes 0.05 s
    assert (moa.rate.low, moa.rate.high) == (pytest.approx(7 / 0.29), pytest.approx(7 / 0.25))
    assert moa.decoding.middle == pytest.approx(6 / 0.22)
    assert moa.latency.middle == pytest.approx(220 / 6)
    assert (moa.latency.low, moa.latency.high) == (pytest.approx(200 / 6), pytest.approx(40))
    assert (moa.drafted, moa.accepted, moa.acceptance) == (8, 4, 0.5)
    assert moa.speedup == pytest.approx((7 / 0.27) / (7 / 0.35)) and plain.speedup == 1
    assert (moa.tree, plain.tree, plain.acceptance) == (TREE, None, None)
    assert sum(moa.seconds.values()) == pytest.approx(0.05 + 0.22)


def test_the_middle_of_two_is_the_slower():
    fast, slow = trace_of([3], 0.1), trace_of([3], 0.2)
    assert middle([fast, slow]) is middle([slow, fast]) is slow
    assert middle([fast]) is fast


def test_a_text_that_differs_is_marked_with_its_place():
    same, other = trace_of([3, 3]), trace_of([3, 3], ids=[1, 2, 3, 99, 5, 6, 7])
    comparison = comparison_of(moa_n1=[same, other], vanilla=[trace_of([1] * 6, 0.1, 0)])
    found = rows(comparison)
    assert (found[0].same, found[0].differs, found[0].gap, found[1].same) == (False, 4, None, True)
    shown = table(found)["Same text as plain greedy?"]
    assert list(shown) == ["no, from token 4", "it is plain"]
    comparison.parted["moa-n1"] = Exactness(3, 0.000031)
    found = rows(comparison)
    shown = table(found)["Same text as plain greedy?"]
    assert list(shown) == ["no, from token 4 (logit gap 3.1e-05)", "it is plain"]
    assert record(found[0])["logit_gap_there"] == 0.000031
    assert record(found[1])["logit_gap_there"] is None
    assert "Same text as plain sampling?" in table(found, greedy=False)


def test_without_a_plain_text_nothing_is_claimed():
    [row] = rows(comparison_of(moa_n1=[trace_of([2])], eagle2=[]))
    assert (row.same, row.differs, row.speedup) == (None, None, None)
    assert table([row])["Same text as plain greedy?"][0] == "–"
    assert "Speed-up over vanilla" not in table([row])


def test_an_answer_of_one_token_has_no_figures_of_decoding():
    found = rows(comparison_of(moa_n1=[trace_of([])], vanilla=[trace_of([])]))
    assert [(row.tau, row.decoding, row.latency) for row in found] == [(None,) * 3] * 2
    shown = table(found)
    assert list(shown["τ"]) == list(shown["ms per token"]) == ["–", "–"]
    assert record(found[0])["tau"] is None


def test_the_table_reads_as_the_rows_do():
    shown = table(rows(usual_comparison()))
    assert list(shown["τ"]) == ["3.00", "2.00", "1.00"]
    assert shown["Tokens/s (min–max)"][0] == "25.9 (24.1–28.0)"
    assert list(shown["Decoding alone"]) == ["27.3", "20.0", "20.0"]
    assert list(shown["ms per token"]) == ["36.67", "50.00", "50.00"]
    assert list(shown["Target calls"]) == ["3", "4", "7"]
    assert list(shown["Acceptance rate"]) == ["50.0 %", "25.0 %", "–"]
    assert list(shown["Speed-up over vanilla"]) == ["1.30 ×", "1.00 ×", "1.00 ×"]
    assert list(shown["Tree"]) == ["3-2-4", "3-2-4", "–"]


def test_of_trees_sized_automatically_the_mean_is_shown():
    auto = replace(row_of("moa-n1"), tree=AUTO)
    [shown] = table([auto])["Tree"]
    assert shown == f"auto, {auto.drafted / auto.cycles:.1f} drafts"
    kept = record(auto)
    assert kept["tree_auto"] and kept["tree_budget"] is None


def test_the_file_has_every_digit_and_says_how_it_was_measured():
    comparison = usual_comparison()
    found = rows(comparison)
    path = write_csv(found, comparison)
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == ["moa-n1", "eagle2", "vanilla"]
    for line, row in zip(lines, found, strict=True):
        assert float(line["tokens_per_second"]) == row.rate.middle
        assert float(line["decode_tokens_per_second"]) == row.decoding.middle
        assert float(line["ms_per_token_high"]) == row.latency.high
        assert float(line["draft_seconds"]) == row.seconds["draft"]
        assert (line["device"], line["threads"], line["seed"]) == ("cpu", "1", "0")
    assert [line["tree_depth"] for line in lines] == ["3", "3", ""]
    assert lines[0]["target_calls"] == "3" and lines[2]["acceptance_rate"] == ""


def test_records_are_plain_json():
    assert json.loads(json.dumps(record(row_of("moa-n1"))))["tree_budget"] == 4
