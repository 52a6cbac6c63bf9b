"""The Benchmarks tab: its charts hold the files' numbers, and another recording changes them."""

import pytest

from demo.common.by_method import shown
from demo.results.tab import FIRST, ours
from tests.browser.conftest import every_look, keep_picture
from tests.browser.driving import can_be_read, chart, charts_are_named

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tab=benchmarks", "#bench-speed .js-plotly-plot .main-svg"
OURS = ours()


def data(page, name):
    return chart(page, f"bench-{name}")["data"]


def unfold(page, name):
    page.click(f"#{name} > button")


def check_bars(page, recording):
    """Every number that is drawn is the file's."""
    for name, key in (("tau", "tau"), ("speed", "tokens_per_second")):
        bars, _ = data(page, name)
        figures = {shown(name): found for name, found in recording.methods.items() if key in found}
        assert bars["y"] == list(figures)
        assert bars["x"] == [found[key] for found in figures.values()]


def test_a_sentence_and_two_charts_come_first(tab):
    page = tab()
    first = OURS[0]
    assert first.name == FIRST
    words = page.inner_text("#bench-claims")
    for part in (first.name, first.date, first.machine, first.precision, first.commit, "EAGLE-2"):
        assert part in words
    check_bars(page, first)
    assert charts_are_named(page)
    command = page.locator("#bench-claims pre")
    assert not command.is_visible()
    page.locator("#bench-claims summary").focus()
    page.keyboard.press("Enter")
    command.wait_for()
    assert command.inner_text() == first.command
    for _ in every_look(page):
        assert can_be_read(page, ".bench-chart .note p", ".record-claims p", "#bench-paper .note p")
        keep_picture(page, "benchmarks")


def test_another_recording(tab):
    page, second = tab(), OURS[1]
    page.get_by_label(second.name, exact=True).check()
    page.wait_for_selector(f"#bench-claims:has-text('{second.name}')")
    check_bars(page, second)


def test_all_numbers_as_charts_and_the_papers_apart(tab):
    page, first = tab(), OURS[0]
    unfold(page, "bench-more")
    page.wait_for_selector("#bench-times .js-plotly-plot .main-svg")
    draft, verify, *_ = data(page, "times")
    by_name = {shown(name): found for name, found in first.methods.items()}
    for at, name in enumerate(draft["y"]):
        spent = by_name[name]["seconds"]
        assert draft["x"][at] / verify["x"][at] == pytest.approx(spent["draft"] / spent["verify"])
    words = page.inner_text("#bench-paper")
    assert "Not measured here" in words and "2410.03804" in words
    page.locator("#bench-paper .note").last.scroll_into_view_if_needed()
    page.wait_for_selector("#bench-paper [data-testid^=cell-]:has-text('†')")
    assert page.locator("#bench-paper [data-testid^=cell-]:has-text('†')").count() == 3
