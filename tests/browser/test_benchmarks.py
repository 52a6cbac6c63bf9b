"""The Benchmarks tab: its charts hold the files' numbers, and another recording changes them."""

import pytest

from demo.results.tab import FIRST, kept
from tests.browser.conftest import every_look, keep_picture
from tests.browser.driving import can_be_read, chart, charts_are_named

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tab=benchmarks", "#bench-speed .js-plotly-plot .main-svg"
OURS = kept()


def data(page, name):
    return chart(page, f"bench-{name}")["data"]


def unfold(page, name):
    page.click(f"#{name} > button")


def check_bars(page, recording, kind=None, names=("tau", "speed")):
    """Every number that is drawn is the file's."""
    keys = {"tau": "tau", "speed": "tokens_per_second", "decoding": "decode_tokens_per_second"}
    for name in names:
        [bars] = data(page, name)
        figures = {method: recording.figures(method, kind) for method in bars["y"]}
        assert list(figures) == [one for one in recording.methods if one in figures]
        assert bars["x"] == [found[keys[name]] for found in figures.values()]


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
        assert can_be_read(page, ".bench-chart .note p", ".record-claims p", ".paper .note")
        keep_picture(page, "benchmarks")


def test_another_recording_and_one_kind_of_prompt(tab):
    page, second = tab(), OURS[1]
    unfold(page, "bench-filters")
    page.get_by_label(second.name, exact=True).check()
    page.wait_for_selector(f"#bench-claims:has-text('{second.name}')")
    check_bars(page, second)
    kind = second.kinds[1]
    page.click("#bench-kind input")
    page.get_by_role("option", name=kind).click()
    wanted = second.figures("moa-n1", kind)["tau"]
    page.wait_for_function(
        "wanted => document.querySelector('#bench-tau .js-plotly-plot').data[0].x.includes(wanted)",
        arg=wanted,
    )
    check_bars(page, second, kind, ("tau",))


def test_all_numbers_as_charts_and_the_papers_apart(tab):
    page, first = tab(), OURS[0]
    unfold(page, "bench-more")
    page.wait_for_selector("#bench-times .js-plotly-plot .main-svg")
    check_bars(page, first, names=("decoding",))
    draft, verify, _ = data(page, "times")
    for at, name in enumerate(draft["y"]):
        spent = first.figures(name)["seconds"]
        assert draft["x"][at] / verify["x"][at] == pytest.approx(spent["draft"] / spent["verify"])
    words = page.inner_text("#bench-paper")
    assert "Not measured here" in words and "2410.03804" in words
    assert page.locator("#bench-paper td:has-text('†')").count() == 3
