"""The TLI tab, driven as a visitor would."""

import re

import pytest

from moa_core.bench.paper import published
from tests.browser.conftest import LOOKS, both_themes, keep_picture
from tests.browser.driving import (
    can_be_read,
    chart,
    charts_are_named,
    fits,
    status,
    type_number,
)

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tab=tli", "#sweep-run:not([disabled])"
NAMES = {"moa-n0": "N = 0", "moa-n1": "N = 1", "moa-auto": "Auto N"}


def sweep(page, length=48, repeats=1):
    type_number(page, "#sweep-length", length)
    type_number(page, "#sweep-repeats", repeats)
    page.click("#sweep-run")
    page.wait_for_selector("#sweep-stop:not([disabled])")


def finish(page):
    page.wait_for_selector("#sweep-run:not([disabled])")
    page.wait_for_function(
        "() => document.querySelector('#sweep-status .status-line').dataset.kind === 'done'"
    )


def figure(page, name):
    """A chart with what its only trace shows."""
    found = chart(page, f"sweep-{name}")
    [only] = found.pop("data")
    return found | only


def table(page):
    """{method: bold numbers of its row}"""
    return {
        row.get_attribute("data-method"): [
            float(cell) for cell in row.locator("b").all_inner_texts()
        ]
        for row in page.locator("#sweep-table tbody tr").all()
    }


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_a_sweep_has_a_point_for_each_n_and_says_what_its_numbers_say(tab, look):
    page = tab(look)
    sweep(page, repeats=2 if look == LOOKS[0] else 1)
    finish(page)
    rows = table(page)
    assert list(rows) == ["vanilla", *NAMES]
    for place, (name, digits) in enumerate((("tau", 2), ("draft", 1), (None, 1), ("rate", 0))):
        if name:
            drawn = figure(page, name)
            assert [round(value, digits) for value in drawn["y"]] == pytest.approx(
                [rows[method][place] for method in NAMES], abs=0.51 * 10**-digits
            )
            assert [text.partition("<br>")[2] for text in drawn["ticks"]] == list(NAMES.values())
            assert [float(re.search(r"[\d.]+", text)[0]) for text in drawn["ticks"]] == [
                rows[method][place] for method in NAMES
            ]
            for method in NAMES:
                assert f" {rows[method][place]:.{digits}f}" in drawn["words"]
    words = page.inner_text("#sweep-verdict")
    fixed = {method: rows[method] for method in ("moa-n0", "moa-n1")}
    speeds = figure(page, "rate")["y"]  # uncut: the table's may tie
    best = list(NAMES)[max((0, 1), key=speeds.__getitem__)]
    assert f"Fastest here: {NAMES[best]} with " in words
    if rows["moa-n0"][0] != rows["moa-n1"][0]:
        top = max(fixed, key=lambda method: fixed[method][0])
        assert f"Highest τ: {NAMES[top]} with {rows[top][0]:.2f}" in words
    trees = page.locator("#sweep-table tbody td:last-child").all_inner_texts()
    assert trees == ["–", *["5-4-12"] * 3]
    assert rows["vanilla"][0] == 1 and "bonus token included" in page.inner_text("#sweep-table")
    assert re.match(r"\d+ runs in .* wrote the same 48 tokens\.", status(page, "sweep-"))
    check_auto(page, rows, words, best)
    check_paper(page)
    assert fits(page) and charts_are_named(page)
    for _ in both_themes(page):
        assert can_be_read(
            page, "#sweep-verdict p", "#sweep-table thead th", "#sweep-paper p", "#sweep-run",
            ".tli-drawing figcaption p", "#sweep-status .status-line",
        )  # fmt: skip
        keep_picture(page, "tli")


def check_auto(page, rows, words, best):
    """Auto N's strip has a mark for each cycle, and its sentence says what strip and table show."""
    strip = figure(page, "strip")
    cycles = int(re.match(r"\d+", page.inner_text("#sweep-about-strip"))[0])
    assert len(strip["x"]) == len(strip["text"]) == cycles > 0
    assert 47 / cycles == pytest.approx(rows["moa-auto"][0], rel=0.35)  # the last cycle may be cut
    said = re.search(r"settled on N = (\d) \(|most often N = (\d), in", words)
    later = strip["text"][cycles // 2 :]
    assert f"last {len(later)} cycle" in words
    assert f"of {cycles} cycles N = 0 in {strip['text'].count('N = 0')}," in strip["words"]
    named = f"N = {said[1] or said[2]}"
    assert later.count(named) == max(map(later.count, later))
    assert re.search(rf"(as fast as|than|against) {NAMES[best]}, the best fixed N", words)


def check_paper(page):
    """The paper's figures are those of the recorded table, and called the paper's."""
    printed = [row.printed for row in published().by_tli.values()]
    assert figure(page, "paper-tau")["y"] == [tau for _, tau in printed]
    assert figure(page, "paper-speed")["y"] == [speed for speed, _ in printed]
    assert "The paper" in figure(page, "paper-tau")["title"]
    assert "not measured here" in page.inner_text("#sweep-paper-title")
    assert "Llama-3-8B-Instruct" in page.inner_text("#sweep-paper")


def test_the_address_opens_the_tab_whose_drawing_follows_the_n_in_focus(tab):
    page = tab()
    assert page.get_by_role("tab", name="TLI").get_attribute("aria-selected") == "true"
    assert "tab=tli" in page.url
    check_paper(page)  # there before any run
    assert page.locator("#sweep-results").count() == 0 or page.locator("#sweep-results").is_hidden()
    for tli in (0, 3, 1):
        page.get_by_label(f"N = {tli}", exact=True).check()
        page.wait_for_selector(f"#sweep-drawing figcaption:has-text('N = {tli}.')")
        assert page.locator("#sweep-drawing path.shared").count() == tli
    assert "adds a target layer" in page.inner_text("#sweep-drawing")


def test_stop_keeps_what_is_finished(tab):
    page = tab()
    sweep(page, length=128, repeats=5)
    page.wait_for_function(
        "() => document.querySelector('#sweep-progress span').textContent.startsWith('Repeat 2')"
    )
    assert page.locator("#sweep-progress progress").evaluate("bar => bar.value") > 0
    page.click("#sweep-stop")
    finish(page)
    done, wanted = map(int, re.search(r"(\d+) of (\d+) runs", status(page, "sweep-")).groups())
    assert 4 <= done < wanted == 20 and page.locator("#sweep-progress p").is_hidden()
    assert list(table(page)) == ["vanilla", *NAMES]


def test_auto_n_can_be_left_out_and_a_mistake_loses_nothing(tab):
    page = tab()
    page.get_by_label("Auto N, too").uncheck()
    page.get_by_label("Each N its own").check()
    sweep(page, length=16)
    finish(page)
    before = table(page)
    assert list(before) == ["vanilla", "moa-n0", "moa-n1"]
    assert page.locator("#sweep-strip .js-plotly-plot").count() == 0
    assert "Each N has the tree measured for it" in page.inner_text("#sweep-table")
    assert "Auto N" not in page.inner_text("#sweep-verdict")
    page.fill("#sweep-prompt textarea", " ")
    page.click("#sweep-run")
    page.wait_for_selector("#sweep-status .status-line[data-kind=error]")
    assert "empty" in status(page, "sweep-")
    page.wait_for_selector("#sweep-run:not([disabled])")
    assert table(page) == before and page.locator("#sweep-progress p").is_hidden()
