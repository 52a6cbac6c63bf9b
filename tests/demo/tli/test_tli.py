"""The tab Layers (TLI): its sentences, its table, its drawing, and its link to a comparison."""

import re

import pytest

import demo.engine as module
from demo.engine import Engine
from demo.tli.tab import ABOUT, advice_html, gains_html, link_html, source
from moa_core.loading.catalog import Installed
from tests.demo.results.made_up import figures, recording


def test_the_link_to_a_comparison_says_how_long_it_takes(loads, monkeypatch):
    engine = Engine()
    assert "prompt: 9 runs →" in link_html(engine) and "recorded" not in link_html(engine)
    quick = recording(vanilla=figures(1, 9), moa_n0=figures(3, 9), moa_n1=figures(3, 8))
    seconds = (3 * 96 + 16) * (2 / 9 + 1 / 8)
    assert f"about {seconds:.0f} s at Benchmarks’ speeds" in link_html(engine, "", quick)
    monkeypatch.setattr(module, "bundle", lambda: Installed("fake", {}))
    assert link_html(Engine()) == ""


def cells(page):
    rows = re.findall(r"<tr><th scope=.row.>.+?</th>(.+?)</tr>", page)
    return [re.findall("<td.*?>(.+?)</td>", row) for row in rows]


@pytest.mark.parametrize(
    ("tau", "trade"),
    [
        (3.1, "3.10 tokens instead of 3.00 (this may be chance)"),
        (3.9, "3.90 tokens instead of 3.00"),
    ],
)
def test_which_n_to_take_gain_and_cost_are_the_recorded_ones(tau, trade):
    costly = {"seconds": {"draft": 0.4, "verify": 0.3, "other": 0.1}, "speedup": 1.25}
    found = recording(
        vanilla=figures(1, 9), moa_n0=figures(3, 9), moa_n1={**figures(tau, 8), **costly}
    )
    advice = advice_html(found, found).replace("\u00a0", " ")
    take = "take N = 0: it is the fastest, 1.50 × as fast as plain decoding."
    assert f">With these drafters, {take}<" in advice
    assert f"With N = 1, a model call brings {trade}, but guessing takes 4.0 ms" in advice
    assert "a cycle instead of 2.0 ms. <a " in advice and "N = 1 was trained least" in advice
    assert "with care. In the paper" in advice and "N = 0 is the fastest" in advice
    page = gains_html(found, found)
    assert page.count('scope="rowgroup"') == page.count("<tbody>") == 3
    assert "–: not trained." in page and "10 prompts, CPU, Abacus" in source(found)
    sized, one_tree, (paper, papers_speed) = (cells(page)[at : at + 3] for at in (0, 3, 6))
    times = ["2.0 ms", "4.0 ms", "–"]
    assert sized == one_tree == [["3.00", f"{tau:.2f}", "–"], ["1.50", "1.25", "–"], times]
    assert paper == ["4.30", "4.56", "4.83"]
    assert papers_speed == ["1.99", "1.98", "1.81"]
    for chosen, marked in ((0, ["N = 0", "3.00"]), (1, ["N = 1", f"{tau:.2f}"])):
        found_here = re.findall("class=chosen>(.+?)<", gains_html(found, found, chosen))
        assert [found_here[0].replace("\u00a0", " "), found_here[1]] == marked


def test_without_a_clear_winner_the_headline_names_none():
    found = recording(
        vanilla=figures(1, 9), moa_n0=figures(3, 9, spread=1),
        moa_n1={**figures(3, 8, spread=1), "speedup": 1.25},
    )  # fmt: skip
    said = "it hardly matters: every N is 1.25 to 1.50 × as fast as plain decoding."
    assert f">With these drafters, {said}<" in advice_html(found)


def test_the_smallest_n_that_is_level_with_the_fastest_is_enough():
    found = recording(
        vanilla=figures(1, 9), moa_n0=figures(3, 9), moa_n3={**figures(4, 8.8), "speedup": 1.45},
        moa_n1={**figures(2, 7), "speedup": 1.2},
    )  # fmt: skip
    least = "1.50 × plain decoding’s speed with N = 0, 1.20 × with N = 1, 1.45 × with N = 3"
    told = advice_html(found).replace("\u00a0", " ")
    said = f"{least} (N = 0 and N = 3 are level: within 5 %)"
    assert f">With these drafters, borrowing layers does not pay: {said}.<" in told
    found.results["settings"]["repeat"] = 2
    assert "are level: their passes overlap)" in advice_html(found)
    found.methods["moa-n3"]["speedup"] = 1.52  # level, though it is more
    assert "With these drafters, borrowing layers does not pay: " in advice_html(found)


def test_one_recorded_n_is_said_and_none_shows_nothing():
    assert "Only N = 1 is measured here." in advice_html(recording())
    assert advice_html() == advice_html(recording(vanilla=figures(1, 9))) == f"<p>{ABOUT}</p>"
    assert gains_html(recording(vanilla=figures(1, 9))) == ""
