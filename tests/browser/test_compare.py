"""The tab Side by side, driven as a visitor would."""

import re

import pytest

from tests.browser.conftest import HOSTILE, LOOKS, every_look, keep_picture
from tests.browser.driving import (
    SEEN,
    can_be_read,
    chart,
    charts_are_named,
    status,
    type_number,
    wait_for_status,
)

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tab=compare", "#compare-run:not([disabled])"
PROMPT, LENGTH = "Tell me a story.", 48
CELLS = """() => Array.from(document.querySelectorAll('#compare-table [data-index]'), row =>
  Array.from(row.querySelectorAll('[data-testid^=cell-]'), cell => cell.innerText.trim()))"""
HEADS = """() => Array.from(
  document.querySelectorAll('#compare-table [data-testid^=header-]'), cell => cell.title)"""
TEXTS = """() => Array.from(document.querySelectorAll('.race .text'), lane => {
  const text = lane.cloneNode(true);
  for (const extra of text.querySelectorAll('.special, .rejected, .more, .break')) extra.remove();
  return text.textContent;
})"""


def opened(tab, look=LOOKS[0]):
    page = tab(look)
    page.fill("#compare-prompt textarea", PROMPT)
    return page


def settings(page, **values):
    """Type numbers into sliders and fields, those of the folded settings too."""
    page.get_by_role("button", name="Draft tree, sampling and length").locator(
        "visible=true"
    ).click()
    for name, value in values.items():
        type_number(page, f"#compare-{name}", value)


def compare(page):
    page.click("#compare-run")
    page.wait_for_selector("#compare-run[disabled]")
    page.wait_for_selector(READY)


def said(page):
    return status(page, "compare-")


def drawn(page, name):
    return chart(page, f"compare-{name}")["data"]


def table(page):
    """The table as dictionaries of what its cells say."""
    heads = page.evaluate(HEADS)
    return [dict(zip(heads, cells, strict=True)) for cells in page.evaluate(CELLS)]


def test_a_comparison_is_the_same_in_table_charts_verdict_and_race(tab):
    page = opened(tab, LOOKS[-1])
    settings(page, tokens=LENGTH, repeats=2)
    compare(page)
    assert said(page) == "All 6 runs are done."
    page.wait_for_function(SEEN, arg="#compare-verdict")
    assert page.locator("#compare-verdict b").all_inner_texts()[-1] == "same text ✓"
    found = table(page)
    assert [row["Method"] for row in found] == ["MoA N=0", "EAGLE-2", "Plain"]
    run_the_race(page)
    for name, column in (("tau", "τ"), ("rate", "Tokens/s (min–max)")):
        bar, beside = drawn(page, name)
        shown = [row[column].split(" ")[0] for row in found]
        assert bar["y"] == [row["Method"] for row in found]
        assert [text.split()[0] for text in beside["text"]] == shown
    lines = drawn(page, "latency")
    for line, time in zip(lines, page.locator(".race .time").all_inner_texts(), strict=True):
        assert line["x"][-1] == LENGTH and f"{line['y'][-1]:.2f} s" == time
    assert found[0]["τ"] in page.inner_text("#compare-verdict")
    assert len(set(page.evaluate(TEXTS))) == 1
    assert {row["Same text as plain greedy?"] for row in found} == {"yes", "–"}
    assert charts_are_named(page)
    for _ in every_look(page):
        assert can_be_read(
            page, "#compare-verdict b", ".race .note", ".race .state", ".race .accepted .mark",
            ".race .bonus .mark", "#compare-run",
        )  # fmt: skip
        keep_picture(page, "compare")


def run_the_race(page):
    """It begins when it is first seen."""
    page.locator(".race .tracks").scroll_into_view_if_needed()
    page.wait_for_selector(".race[data-state=done]")


def test_a_mistake_loses_nothing_and_stop_keeps_what_is_finished(tab):
    page = opened(tab)
    settings(page, tokens=250, repeats=5)
    page.click("#compare-run")
    page.wait_for_function(
        "() => /run ([3-9]|1.) of 15/.test(document.querySelector('#compare-status').innerText)"
    )
    assert float(page.get_attribute("#compare-status progress", "value")) > 0
    page.click("#compare-stop")
    page.wait_for_selector(READY)
    count = int(re.match(r"Stopped: (\d+) of 15 runs", said(page))[1])
    assert 2 <= count < 15 and sum(int(row["Runs"]) for row in table(page)) == count
    assert page.locator("#compare-status progress").is_hidden()
    before = page.inner_text("#compare-verdict")
    methods = page.locator("#compare-methods")
    for name in ("EAGLE-2", "Plain"):
        methods.get_by_label(name, exact=True).uncheck()
    page.click("#compare-run")
    wait_for_status(page, "Choose 2 to 4 methods to compare: only 1 is chosen.", "compare-")
    assert page.inner_text("#compare-verdict") == before


def test_the_race_is_paused_and_replayed_and_shows_text_as_it_is(tab):
    page = opened(tab)
    settings(page, tokens=200, repeats=1)
    compare(page)
    assert {row["Tree"] for row in table(page)} == {"5-2-5", "–"}
    race = page.locator(".race")
    race.get_by_role("button", name="Replay").click()
    race.get_by_role("button", name="Pause").click()
    page.wait_for_selector(".race[data-state=paused]")
    half_way = page.evaluate(TEXTS)
    race.get_by_role("button", name="Play").click()
    page.wait_for_selector(".race[data-state=done]")
    ended = page.evaluate(TEXTS)
    assert all(after.startswith(before) for before, after in zip(half_way, ended, strict=True))
    assert sum(map(len, half_way)) < sum(map(len, ended)) and len(set(ended)) == 1
    for hostile in HOSTILE:
        assert hostile in ended[0]
    assert race.locator("b").count() == 0
    for kind in ("accepted", "rejected", "bonus"):
        assert race.locator(f".text [data-token={kind}]").count() > 3
    places = sorted(page.locator(".race .place").all_inner_texts())
    assert places[0] == "1st"


def test_at_a_temperature_and_with_reduced_motion(tab):
    page = opened(tab)
    page.emulate_media(reduced_motion="reduce")
    settings(page, tokens=20, repeats=1, temperature=0.8, seed=3)
    compare(page)
    assert {row["Same text as plain sampling?"] for row in table(page)} == {"yes", "–"}
    # The end is shown at once, and one button.
    page.wait_for_selector(".race[data-state=done]")
    assert all(text for text in page.evaluate(TEXTS))
    assert page.locator(".race button:visible").all_inner_texts() == ["Replay"]
