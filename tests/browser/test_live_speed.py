"""What Live says of speed, and of a run that outlived a reload."""

import json
from time import sleep

import pytest
from pytest import approx

from tests.browser.driving import (
    HOLDS,
    LANE,
    PLAIN,
    RUN,
    SMALL_RUN,
    STORY,
    figure,
    headline,
    reload_changed,
    run,
    status,
    wait_for_status,
)

ADDRESS, READY = SMALL_RUN, RUN
BUSY = "this machine was too busy to tell"
HEARD = """{
  window.heard = new Set();
  new MutationObserver(() => heard.add(document.querySelector("#view .headline")?.innerText))
    .observe(document, { subtree: true, childList: true, characterData: true });
}"""  # all headlines
IMPATIENT = """{
  const wait = window.setTimeout;
  window.setTimeout = (act, ms, ...given) => wait(act, ms === 250 ? 0 : ms, ...given);
}"""  # settings are not waited for: as if they came late
ENDS = "words => document.querySelector('#view .headline').innerText.endsWith(words)"
SAID = {  # of the ratio to plain decoding's speed
    0.8: "Same text, slower: 0.80 × the speed on this prompt (3 runs).",
    1.5: "Same text, 1.50 × as fast on this prompt (3 runs).",
    (
        0.6,
        0.5,
        0.8,
    ): "Same text, slower: about 0.60 (0.50 to 0.80) × the speed on this prompt (3 runs).",
    (1.5, 1.2, 2.0): "Same text, about 1.50 (1.20 to 2.00) × as fast on this prompt (3 runs).",
    None: "Same text. Speed: too close to tell (3 runs).",
}


@pytest.mark.parametrize("late", ["prompt", "address"])
def test_a_run_from_before_a_reload_is_not_outdated_while_the_settings_come(open_page, late):
    page = open_page(ADDRESS if late == "address" else "", ready=RUN)
    run(page, STORY)
    words = headline(page)
    page.add_init_script(HEARD + (IMPATIENT if late == "prompt" else ""))
    if late == "address":
        page.route("**/run/predict*", lambda route: (sleep(0.5), route.continue_()))
    page.reload()
    page.wait_for_selector(f"{LANE}[data-state=done]")
    page.wait_for_function(HOLDS, arg=["#prompt", STORY])
    page.wait_for_timeout(2000)
    assert page.evaluate("[...heard].filter(Boolean)") == [words]


def test_speed_is_measured_when_it_is_asked_for_until_a_cancel_or_a_run_ends_it(page):
    run(page, STORY)
    for ends in (lambda: page.click("#measure-cancel"), lambda: run(page)):
        page.click("#measure")
        page.wait_for_selector(".actions:has-text('Measuring speed: ')")
        ends()
        page.wait_for_selector("#measure")
    assert status(page) == ""  # a run takes away what was said of it
    before = figure(page, "calls")
    page.click("#measure")
    page.wait_for_selector("#charts .about:has-text('Measured')")
    words = headline(page)
    other = figure(page, "calls") != before
    assert (f"{before:.0f} calls in the run before" in page.inner_text("#view .said")) == other
    assert page.locator("#view [data-figure=speedup]").count() != ("too close to tell" in words)
    measured = json.loads(page.evaluate("sessionStorage.getItem('moa-run')"))["measured"]["lanes"]
    for place, method in ((LANE, "moa-n0"), (PLAIN, "vanilla")):
        [points] = [one["points"] for one in measured if one["method"] == method]
        assert figure(page, "rate", place) == approx(points[-1][0] / points[-1][1], rel=0.01)
        assert page.inner_text(f"{place} .badge") == "median of 3 runs"
    [tau] = [one["tau"] for one in measured if one["method"] == "moa-n0"]
    assert figure(page, "calls") == approx(1 + (points[-1][0] - 1) / tau)  # all of the same run
    for name in ("acceptance", "latency"):
        label = page.locator(f"#chart-{name} svg").get_attribute("aria-label")
        assert "MoA N=0" in label and "EAGLE-2" in label and "Plain" in label


def test_a_measurement_that_fails_can_be_asked_for_again(page):
    run(page, STORY)
    reload_changed(page, lambda kept: kept["settings"].update(tokens=1000))
    page.click("#measure")
    wait_for_status(page, "A run has at most 512 new tokens.")
    assert page.locator("#measure").is_visible()


def test_slower_is_said_as_plainly_as_faster(page):
    run(page, STORY)
    for over, words in SAID.items():
        measured = {"lanes": [], "about": "", "runs": 3, "over": {"vanilla": over}}
        reload_changed(page, lambda kept, found=measured: kept.update(measured=found))
        page.wait_for_function(ENDS, arg=words)


def test_calls_that_take_no_longer_tell_of_a_busy_machine(page):
    def equal(kept):
        for line in (*kept["lines"]["drafter"], *kept["lines"]["plain"]):
            if "ms" in line:
                line["ms"] = [0, 5, 0]

    def steady(kept):
        first = {"drafter": 0.1, "plain": 0.1}
        for name, every in kept["lines"].items():
            for line in every:
                if "first" in line:
                    line["s"] = first[name]
                if "ms" in line:
                    line["ms"] = [1, 8, 0] if name == "drafter" else [0, 5, 0]

    def unsteady(kept):
        calls = [line for line in kept["lines"]["plain"] if "ms" in line]
        for at, line in enumerate(calls):
            line["ms"] = [0, 12 if at % 2 else 5, 0]

    def late(kept):
        steady(kept)
        for line in kept["lines"]["drafter"][1:]:
            line["s"] += 3

    told = "#view .costs:has-text('takes longer than a plain one')"
    run(page, STORY)
    for change, busy in ((equal, 1), (steady, 0), (unsteady, 1), (late, 1)):
        reload_changed(page, change)
        page.wait_for_selector("#view .costs:text-matches('(brings|prompt, ).* tokens')")
        assert (page.locator(told).count() > 0) == busy
        assert headline(page).endswith(f"Speed: {BUSY}. Press Measure speed.") == busy
        assert (page.locator("#view .lane [data-figure=rate]").count() == 0) == busy
