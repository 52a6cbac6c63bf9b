"""The TLI tab, driven as a visitor would."""

import pytest

from tests.browser.conftest import every_look, keep_picture
from tests.browser.driving import can_be_read, chart, charts_are_named, settings, status

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tab=tli", "#sweep-run:not([disabled])"


def test_the_drawing_follows_the_n_in_focus_and_a_sweep_has_a_bar_for_each(page):
    assert page.get_by_role("tab", name="Layers (TLI)").get_attribute("aria-selected") == "true"
    assert page.locator("#sweep-table").is_hidden()
    for tli in (3, 1):
        page.get_by_label(f"N = {tli}", exact=True).check()
        page.wait_for_selector(f"#sweep-drawing figcaption:has-text('N = {tli}.')")
        assert page.locator("#sweep-drawing path.bonus").count() == tli
    assert "adds a target layer" in page.inner_text("#sweep-drawing")
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
    assert any(f"{tau:.2f}" in page.inner_text("#sweep-verdict") for tau in taus)
    assert charts_are_named(page)
    for _ in every_look(page):
        assert can_be_read(
            page, "#sweep-verdict b", "#sweep-run", ".tli-drawing figcaption p",
            "#sweep-status .status-line",
        )  # fmt: skip
        keep_picture(page, "tli")
