"""The tab Side by side, driven as a visitor would."""

import re

import pytest

from tests.browser.conftest import HOSTILE, every_look, keep_picture
from tests.browser.driving import (
    KEPT,
    SEEN,
    can_be_read,
    chart,
    charts_are_named,
    settings,
    slowed,
    status,
    wait_for_status,
)

ADDRESS, READY = "?tab=compare&prompt=Tell me a story.", "#compare-run:not([disabled])"
LENGTH = 100
CELLS = """() => Array.from(document.querySelectorAll('#compare-table [data-index]'), row =>
  Array.from(row.querySelectorAll('[data-testid^=cell-]'), cell => cell.innerText.trim()))"""
HEADS = """() => Array.from(
  document.querySelectorAll('#compare-table [data-testid^=header-]'), cell => cell.title)"""
# Of each bar: its end, and the ends of the line over it, if it has one.
RANGES = """() => [...document.querySelectorAll('#compare-race .whole')].map((whole) => {
    const [end, line] = [...whole.children].map((part) => part.getBoundingClientRect());
    return [end.right, line && [line.left, line.right]]})"""
# Presses Stop once a third of the runs are done: in the page, since a test that asks may be late.
STOP_WHEN_FAR = """() => new MutationObserver((_, watch) => {
    const status = document.querySelector('#compare-status');
    if (!/run ([5-9]|1.) of 15/.test(status.innerText)) return;
    if (!(status.querySelector('progress')?.value > 0)) return;
    watch.disconnect();
    document.querySelector('#compare-stop').click();
}).observe(document.body, {subtree: true, childList: true, characterData: true})"""


# Of each lane of a race: its bar, and how many tokens are written.
BARS = """() => [...document.querySelectorAll('#compare-race .track')].map((track, at) => [
    track.querySelector('progress').value,
    parseInt(document.querySelectorAll('#compare-race .lane .state')[at].textContent)])"""
# The bars' widths, and their seconds.
LONG = """() => [...document.querySelectorAll('#compare-race .track')].map((track) => [
    track.querySelector('progress').offsetWidth,
    parseFloat(track.querySelector('.time').textContent)])"""
FROM_ABOVE = ("#compare-run", "#compare-verdict", ".race .tracks", "#compare-methods",
              "#compare-settings", "#compare-share-fold")  # fmt: skip
DIMMED = "old => (getComputedStyle(document.querySelector('#compare-results')).opacity < 1) == old"


def table(page):
    """The table as dictionaries of what its cells say, once its fold is open."""
    if not page.locator("#compare-table").count():
        page.click("#compare-all > button")
    page.wait_for_selector("#compare-table [data-index]")
    heads = page.evaluate(HEADS)
    return [dict(zip(heads, cells, strict=True)) for cells in page.evaluate(CELLS)]


def test_a_comparison_is_the_same_in_table_charts_verdict_and_race(page):
    settings(page, "compare-", tokens=LENGTH, repeats=1)
    page.wait_for_selector("#compare-plan:has-text('3 runs, in turns.')")
    page.click("#compare-run")
    page.wait_for_function(DIMMED, arg=True)  # what is there is old
    wait_for_status(page, "All 3 runs are done.", "compare-")
    page.wait_for_function(SEEN, arg="#compare-verdict")
    page.wait_for_function(DIMMED, arg=False)
    assert not page.locator(".race.before").count()  # it is of the prompt in the box
    assert page.locator("#compare-plan span").evaluate("e => getComputedStyle(e).display") == "none"
    assert page.locator("#compare-verdict span").all_inner_texts()[0] == "Same text ✓"
    found = table(page)
    assert [row["Method"] for row in found] == ["MoA N=0", "EAGLE-2", "Plain"]
    said = [one.split("\n") for one in page.locator(".race .tau").all_inner_texts()]
    assert [tau for tau, *_ in said] == [f"{row['τ']} tokens per call" for row in found]
    assert all(re.fullmatch(r"\d+ ms a call", call) for _, *calls in said for call in calls)
    over = page.locator(".race .over").all_inner_texts()
    assert over == [f"{row['Speed-up over plain']} plain" for row in found]
    assert "MoA N=0" in page.inner_text("#compare-verdict .conclusion")
    assert {row["Same text as plain greedy?"] for row in found} == {"yes", "–"}
    assert {row["Tree"].split(",")[0] for row in found} == {"auto", "–"}
    check_race(page)
    bar, beside = chart(page, "compare-tau")
    assert bar["y"] == [row["Method"] for row in found]
    assert [text.strip() for text in beside["text"]] == [row["τ"] for row in found]
    lines = chart(page, "compare-latency")
    for line, time in zip(lines, page.locator(".race .time").all_inner_texts(), strict=True):
        assert line["x"][-1] == LENGTH
        # That of the last token, but for what a run does after it; the other is rounded.
        assert float(time.split()[0]) == pytest.approx(line["y"][-1], abs=0.006)
    assert charts_are_named(page)
    for _ in every_look(page):
        assert can_be_read(
            page, "#compare-verdict span", ".race .note", ".race .state", ".race .accepted .mark",
            ".race .bonus .mark", "#compare-run",
        )  # fmt: skip
        keep_picture(page, "compare")


def check_race(page):
    """It begins when it is first seen, is replayed, and shows text as it is."""
    race = page.locator(".race")
    race.locator(".tracks").scroll_into_view_if_needed()
    race.get_by_role("button", name="Replay").click()
    page.wait_for_selector(".race[data-state=done]")
    ended = [page.evaluate(KEPT, f".race .lane:nth-child({place})") for place in (1, 2, 3)]
    assert len(ended[0]) > LENGTH and len(set(ended)) == 1
    assert all(hostile in ended[0] for hostile in HOSTILE) and race.locator(".text b").count() == 0
    for kind in ("accepted", "rejected", "bonus"):
        assert race.locator(f".text [data-token={kind}]").count() > 3
    for press, whole in (("Show whole texts", True), ("Show less", False)):
        race.get_by_role("button", name=press).click()
        for text in race.locator(".text").all():
            assert text.evaluate("one => one.scrollHeight <= one.clientHeight") == whole
        assert race.locator(".lane.more").count() == (0 if whole else 3)
    assert "One run each" in page.inner_text("#compare-verdict")  # so there are no places
    assert not any(race.locator(".place").all_inner_texts())
    assert {bar for bar, _ in page.evaluate(BARS)} == {1}  # all have come to the end
    widths, seconds = zip(*page.evaluate(LONG), strict=True)
    shares = [one / max(widths) for one in widths]
    told = 0.005 / max(seconds)  # seconds are rounded
    assert shares == pytest.approx([one / max(seconds) for one in seconds], abs=0.02 + 2 * told)


def test_other_methods_are_folded_away_unless_one_is_chosen(page):
    shown = page.locator("#compare-methods label:visible")
    assert shown.all_inner_texts() == ["MoA N=0", "EAGLE-2", "Plain"]
    page.get_by_label("Show all methods").check()
    other = page.get_by_role("checkbox", name="MoA N=1", exact=True)
    other.check()
    page.get_by_label("Show all methods").uncheck()
    assert shown.count() > 3
    other.uncheck()
    assert shown.count() == 3
    for name in ("EAGLE-2", "Plain"):
        page.get_by_role("checkbox", name=name, exact=True).uncheck()
    page.wait_for_selector("#compare-plan:has-text('Choose 2 to 5 methods.')")


def test_a_recorded_race_is_whole_before_it_is_seen(page):
    page.set_viewport_size({"width": 390, "height": 320})  # it begins further down
    page.reload()
    page.wait_for_selector(".race[data-state=done]")
    tops = [page.locator(one).bounding_box()["y"] for one in FROM_ABOVE]
    assert tops == sorted(tops), "on a phone, what was found stands before the settings"
    assert not page.locator("#compare-details").count(), "nothing was compared yet"
    states = page.locator(".race .state").all_inner_texts()
    assert len(states) == 3 and not any(words.startswith("0 tokens") for words in states)
    assert "slower, with the prompt “Write a short email" in page.inner_text(".tracks + .note")
    page.wait_for_selector(".race.before")  # the box has another one
    assert {"1st", "tie"} & {*page.locator(".race .place").all_inner_texts()}
    whole = [tokens for _, tokens in page.evaluate(BARS)]
    with slowed(page, 20):
        page.locator(".race .tracks").scroll_into_view_if_needed()
        page.wait_for_selector(".race[data-state=running]")
        page.wait_for_function(f"() => ({BARS})().some(([bar]) => bar > 0 && bar < 1)")
        bars, tokens = zip(*page.evaluate(BARS), strict=True)
    assert bars == pytest.approx([one / all_ for one, all_ in zip(tokens, whole, strict=True)])
    page.wait_for_selector(".race[data-state=done]")


def test_stop_keeps_what_is_finished(page):
    # Large trees are slow: else the runs may be over before Stop is pressed.
    settings(
        page, "compare-", tokens=128, repeats=5, temperature=0.8, depth=12, breadth=12, budget=48
    )
    page.evaluate(STOP_WHEN_FAR)
    page.click("#compare-run")
    texts = ".race[data-state=measuring] .lane .text:has([data-token])"
    page.wait_for_selector(texts, timeout=180_000)  # as long as wait_for_status
    assert page.locator(".race .track").count() == 3  # of each method, from the start
    wait_for_status(page, "Stopped: ", "compare-")
    count = int(re.match(r"Stopped: (\d+) of 15 runs", status(page, "compare-"))[1])
    runs = [int(row["Runs"]) for row in table(page)]
    assert 4 <= count < 15 and runs == [count // 3] * 3  # equally many of each
    ranges = page.evaluate(RANGES)
    assert [bool(line) for _, line in ranges] == [of > 1 for of in runs]
    assert all(line[0] - 1 <= end <= line[1] + 1 for end, line in ranges if line)
    assert page.locator("#compare-status progress").is_hidden()
    assert "Same text as plain sampling?" in table(page)[0]
