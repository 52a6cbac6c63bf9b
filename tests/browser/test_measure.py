"""Measuring speed on Live, and the sentences that tell what was measured."""

import pytest

from tests.browser.driving import (
    LANE,
    RUN,
    SMALL_RUN,
    STORY,
    headline,
    reload_changed,
    run,
    status,
    wait_for_status,
)

pytestmark = pytest.mark.browser

ADDRESS, READY = SMALL_RUN, RUN
ADDED = "one => getComputedStyle(one, '::after').content"


def test_speed_is_measured_when_it_is_asked_for_and_can_be_cancelled(page):
    run(page, STORY)
    page.click("#measure")
    page.wait_for_selector(".actions:has-text('Measuring speed: ')")
    page.click("#measure-cancel")
    page.wait_for_selector("#measure")
    page.click("#measure")
    page.wait_for_selector("#charts .about:has-text('Measured')")
    words = headline(page)
    told = page.locator("#view [data-figure=speedup]").count()
    assert told != any(part in words for part in ("too close to call", "from run to run"))
    added = page.locator(f"{LANE} .state").evaluate(ADDED)
    assert added == '" (1 run)"'  # its speed is not the headline's
    for name in ("acceptance", "latency"):
        label = page.locator(f"#chart-{name} svg").get_attribute("aria-label")
        assert "MoA N=0" in label and "EAGLE-2" in label and "Plain" in label


def test_a_run_ends_a_measurement_without_a_word_of_it(page):
    run(page, STORY)
    page.click("#measure")
    page.wait_for_selector(".actions:has-text('Measuring speed: ')")
    run(page)
    assert status(page) == "" and page.locator("#measure").is_visible()


def test_a_measurement_that_fails_can_be_asked_for_again(page):
    run(page, STORY)
    reload_changed(page, lambda kept: kept["settings"].update(tokens=1000))
    page.click("#measure")
    wait_for_status(page, "A run has at most 512 new tokens.")
    assert page.locator("#measure").is_visible()


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (0.8, "Same text, slower: 0.80× the speed on this prompt (3 runs)."),
        (1.5, "Same text, 1.5× as fast on this prompt (3 runs)."),
        ("slower", "Same text, slower here: by how much changes from run to run."),
        (None, "Same text. Speed: too close to call (3 runs)."),
    ],
)
def test_slower_is_said_as_plainly_as_faster(page, over, words):
    run(page, STORY)
    measured = {"lanes": [], "about": "", "runs": 3, "over": {"vanilla": over}}
    reload_changed(page, lambda kept: kept.update(measured=measured))
    assert headline(page).endswith(words)


def test_calls_that_take_no_longer_tell_of_a_busy_machine(page):
    def equal(kept):
        for line in (*kept["lines"]["drafter"], *kept["lines"]["plain"]):
            if "ms" in line:
                line["ms"] = [0, 5, 0]

    run(page, STORY)
    reload_changed(page, equal)
    page.wait_for_selector("#view .costs:has-text('too busy to tell what a call costs')")
