"""The TLI tab, driven as a visitor would."""

import pytest

from demo.results.tab import ours
from demo.tli.tab import RECORDED
from tests.browser.conftest import every_look, keep_picture
from tests.browser.driving import SEEN, can_be_read, chart, charts_are_named, settings, status

pytestmark = pytest.mark.browser

FITS = "table => table.getBoundingClientRect().right <= window.innerWidth"
ADDRESS, READY = "?tab=tli", "#sweep-run:not([disabled])"


def test_the_drawing_follows_the_n_in_focus_and_a_sweep_has_a_bar_for_each(page):
    assert page.get_by_role("tab", name="Layers (TLI)").get_attribute("aria-selected") == "true"
    assert page.locator("#sweep-table").is_hidden()
    labels = page.locator("#sweep-focus label").all_inner_texts()
    assert [words.strip() for words in labels if words.startswith("N")] == ["N = 0", "N = 1"]
    for tli in (0, 1):  # the trained ones
        page.get_by_label(f"N = {tli}", exact=True).check()
        page.wait_for_selector(f"#sweep-drawing svg:has-text('What N = {tli} means')")
        assert page.locator("#sweep-drawing path.bonus").count() == tli
    recorded = next(one for one in ours() if one.name == RECORDED)
    rows = page.locator("#sweep-gains tr").all_inner_texts()
    assert f"{recorded.methods['moa-n0']['tau']:.2f}" in rows[1] and "4.56" in rows[5]
    assert page.inner_text("#sweep-about .conclusion").startswith("Take N")
    card = page.request.get(page.locator("#sweep-gains a").evaluate("one => one.href"))
    assert "How they were trained" in card.text()
    for _ in every_look(page):
        assert can_be_read(page, "#sweep-about p", "#sweep-gains p", "#sweep-gains td")
        assert page.locator("#sweep-gains table").evaluate(FITS)
        keep_picture(page, "tli-first")
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.evaluate(SEEN, "#sweep-run")  # all of it is on one screen
    settings(page, "sweep-", tokens=48, repeats=1)
    page.click("#sweep-run")
    page.wait_for_selector("#sweep-status .status-line[data-kind=done]")
    assert status(page, "sweep-").startswith("All ")
    for name, digits in (("tau", 2), ("rate", 1)):
        bars, beside = chart(page, f"sweep-{name}")["data"]
        assert bars["y"] == ["Plain", "EAGLE-2", "MoA N=0", "MoA N=1"]
        for text, value in zip(beside["text"], bars["x"], strict=True):
            assert text.split()[0] == f"{value:.{digits}f}"
    phases = chart(page, "sweep-phases")["data"]
    assert [one["name"] for one in phases[:3]] == ["draft", "verify", "other"]
    taus = chart(page, "sweep-tau")["data"][0]["x"]
    said = page.inner_text("#sweep-verdict .conclusion")
    assert said.startswith("Most tokens") and f"({max(taus[2:]):.2f})" in said
    assert charts_are_named(page)
    for _ in every_look(page):
        assert can_be_read(
            page, "#sweep-verdict b", "#sweep-run", ".tli-drawing figcaption",
            "#sweep-status .status-line",
        )  # fmt: skip
        keep_picture(page, "tli")
