"""Figures from made-up runs, recomputed by hand."""

import json
from pathlib import Path

import pytest

from moa_core.bench.results import figures, rounded, spread, table, tau, write_all
from tests.moa_core.bench.made_up import ABOUT, made_up_runs, ours


def test_figures_by_hand() -> None:
    found = figures(made_up_runs(), ABOUT, greedy=True)
    moa = found["moa"]
    # Two prompts, gained 3 + 2 and 1 + 4 + 1, twice.
    assert moa["tau"] == pytest.approx(11 / 5)
    # New tokens but the first over draft, verify and other: (5 + 6) / (1.1, then 2.2 seconds).
    assert moa["decode_tokens_per_second_spread"] == pytest.approx([5, 10])
    assert moa["decode_tokens_per_second"] == pytest.approx(7.5)
    # All new tokens over all of it, 0.2 seconds of prefill included.
    assert moa["tokens_per_second_spread"] == pytest.approx([13 / 2.4, 13 / 1.3])
    assert moa["tokens_per_second"] == pytest.approx((13 / 2.4 + 13 / 1.3) / 2)
    assert moa["speedup"] == pytest.approx(moa["tokens_per_second"] / (13 / 2.4))
    # Drafts accepted: 2, 1, 0, 3, 0.
    assert moa["acceptance_by_position"] == pytest.approx([3 / 5, 2 / 5, 1 / 5])
    assert (moa["prompts"], moa["new_tokens"], moa["target_calls"]) == (2, 13, 7)
    assert moa["seconds"] == pytest.approx(
        {"prefill": 0.2, "draft": 0.45, "verify": 0.9, "other": 0.3}
    )
    assert moa["repeats_8gram"] == pytest.approx(1 / 10)
    assert moa["kinds"]["a"]["tau"] == 2.5 and moa["kinds"]["b"]["tau"] == 2
    assert moa["trainable_parameters"] == 10 and found["vanilla"]["tli"] is None


def test_the_spread_of_tau_is_over_prompts() -> None:
    moa = figures(made_up_runs(), ABOUT, greedy=True)["moa"]
    assert moa["tau_spread"] == pytest.approx([2, 2.5])  # the one prompt twice, or the other
    assert moa["kinds"]["a"]["tau_spread"] == pytest.approx([2.5, 2.5])
    low, high = spread([(0, 1)] * 50 + [(1, 1)] * 50)
    assert 0.38 < low < 0.43 and 0.57 < high < 0.62, "binomial, n = 100, p = 0.5: 0.4 to 0.6"
    assert spread([]) is spread([(1, 0)]) is None and spread([(1, 1), (0, 0)]) == [1, 1]


def test_texts_are_compared_with_plain_decoding_where_greedy() -> None:
    runs = made_up_runs()
    found = figures(runs, ABOUT, greedy=True)
    assert found["moa"]["identical_to_vanilla"] == 0.5  # the second prompt differs in one repeat
    assert found["vanilla"]["identical_to_vanilla"] == 1.0
    assert figures(runs, ABOUT, greedy=False)["moa"]["identical_to_vanilla"] is None
    alone = [record for record in runs if record["method"] == "moa"]
    without = figures(alone, {"moa": {}}, greedy=True)["moa"]
    assert without["identical_to_vanilla"] is None and without["speedup"] is None


def test_a_peer_has_no_cycles() -> None:
    hf = figures(made_up_runs(), ABOUT, greedy=True)["hf"]
    # 11 tokens after the first forward, of which the prefill is one of 5 calls, in 2 prompts.
    assert hf["tau"] == pytest.approx(9 / 8) and hf["decode_tokens_per_second"] == pytest.approx(
        9 / 2
    )
    assert hf["acceptance_by_position"] is None
    assert hf["seconds"] == pytest.approx({"prefill": 0.2, "decode": 2.0})


def test_a_text_that_ends_at_once_has_no_tau() -> None:
    record = ours("moa", 0, 1, "a", [])
    found = figures([record], {"moa": {}}, greedy=True)["moa"]
    assert found["tau"] is None and found["tau_spread"] is None
    assert found["decode_tokens_per_second"] is None and tau([]) is None
    assert found["tokens_per_second"] == pytest.approx(1 / 0.1)  # the prefill's own token
    assert "moa" in table({"moa": {**found, "tree": None}})


def test_the_files_of_a_benchmark(tmp_path: Path) -> None:
    runs = made_up_runs()
    methods = figures(runs, ABOUT, greedy=True)
    results = {"suite": "made up", "methods": methods, "runs": runs, "odd": []}
    write_all(results, tmp_path)
    text = (tmp_path / "results.json").read_text()
    read = json.loads(text)
    assert read["runs"] == rounded(runs) and read["methods"] == rounded(methods)
    assert len([line for line in text.splitlines() if '"output"' in line]) == len(runs)
    assert json.loads((tmp_path / "summary.json").read_text()) == {**read, "runs": []}


def test_the_table_is_aligned() -> None:
    lines = table(figures(made_up_runs(), ABOUT, greedy=True)).splitlines()
    assert lines[0].split() == [
        "method", "tree", "tokens/s", "low-high", "speed-up", "decoding/s", "tau", "a", "b",
    ]  # fmt: skip
    assert lines[2].split() == [
        "moa", "5-4-12", "7.7", "5.4-10.0", "1.42", "7.5", "2.20", "2.50", "2.00",
    ]  # fmt: skip
    assert len({line.index(end) + len(end) for line, end in zip(
        lines[1:3], ("5.4 ", "7.7 "), strict=True
    )}) == 1  # fmt: skip
