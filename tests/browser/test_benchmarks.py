"""The Benchmarks tab: its charts hold the files' numbers, and another recording changes them."""

import pytest

from demo.common.by_method import shown
from demo.results.tab import ours
from demo.results.table import choice, conclusion
from moa_core.bench.run import processor
from tests.browser.conftest import every_look, keep_picture
from tests.browser.driving import SEEN, can_be_read, chart, charts_are_named

ADDRESS, READY = "?tab=benchmarks", "#bench-paper .paper"
# Which of these start on the first screen, from above to below.
FIRST_SCREEN = """places => places
  .map(place => document.querySelector(place).getBoundingClientRect().top)
  .filter((top, at, all) => top < window.innerHeight && top > (all[at - 1] ?? 0)).length"""
STRIPES = """() => [...document.querySelectorAll('#bench-speed .point path')]
  .map(path => path.style.fill).filter(fill => fill.includes('url'))"""
SEEN_WHOLE = """() => [...document.querySelectorAll('table.beside')].every(
  table => table.getBoundingClientRect().right <= window.innerWidth)"""


def check_bars(page, methods):
    """Every number that is drawn is the file's, in each chart in the order of speed."""
    speeds = [found["tokens_per_second"] for found in methods.values()]
    assert speeds == sorted(speeds, reverse=True)
    for name, key in (("tau", "tau"), ("speed", "tokens_per_second")):
        *drawn_bars, _ = chart(page, f"bench-{name}")
        drawn_bars = [one for one in drawn_bars if not one.get("name")]  # the legend's have one
        [bars] = [one for one in drawn_bars if not one.get("base")]
        more = [one for one in drawn_bars if one.get("base")]
        drawn = dict(zip(bars["y"], bars["x"], strict=True))
        for one in more:  # a drafter with n-gram lookup goes on where the drafter ends
            rows = zip(one["y"], one["base"], one["x"], strict=True)
            drawn |= {f"{name} + n-gram": start + by for name, start, by in rows}
        figures = {shown(name): found[key] for name, found in methods.items() if key in found}
        assert drawn == pytest.approx(figures)
        assert list(drawn)[: len(bars["y"])] == [
            *dict.fromkeys(name.removesuffix(" + n-gram") for name in figures)
        ]


@pytest.mark.skipif(len(ours()) < 2, reason="there are no two recordings yet")
def test_charts_have_the_numbers_of_the_recording_that_is_chosen(page):
    first, second = ours()[:2]
    whole, *rest = conclusion(first)
    words = page.inner_text("#bench-claims")
    assert words.startswith(whole) and rest and all(one in words for one in rest)
    places = ("#bench-claims", "#bench-recording", "#bench-speed")
    assert page.evaluate(FIRST_SCREEN, places) == len(places)
    check_bars(page, first.methods)
    assert charts_are_named(page)
    command = page.locator("#bench-claims pre")
    assert not command.is_visible()
    page.locator("#bench-claims summary").focus()
    page.keyboard.press("Enter")
    command.wait_for()
    assert command.inner_text() == first.results["command"]
    page.keyboard.press("Enter")
    for _ in every_look(page):
        assert can_be_read(page, ".bench-chart .note p", ".record-claims p", "#bench-paper p", "td")
        assert page.evaluate(SEEN_WHOLE)
        keep_picture(page, "benchmarks")
    stripes = page.evaluate(STRIPES)  # they stay though the address changes
    assert stripes and all(fill.startswith('url("#') for fill in stripes)
    page.click("#bench-more > button")
    assert chart(page, "bench-times")[0]["y"]  # its numbers: tests/demo/common/test_charts.py
    page.click("#bench-recording input")
    page.get_by_role("option", name=choice(second, processor()), exact=True).click()
    page.wait_for_selector(f"#bench-claims:has-text('{conclusion(second)[1]}')")
    check_bars(page, second.methods)
    speed = f"{second.methods['moa-n0']['speedup']:.2f}"
    assert speed in page.inner_text("#bench-paper tr:has-text('MoA N=0')")
    page.wait_for_function(SEEN, arg="#bench-claims")  # brought into sight, on a phone
