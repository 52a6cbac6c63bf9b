"""The Network tab, driven as a visitor would: a drafter in this browser, cuts, and what heals."""

import re

import pytest

from tests.browser.conftest import both_themes, every_look, keep_picture
from tests.browser.driving import (
    KEPT,
    SEEN,
    STRUCK,
    can_be_read,
    choose,
    open_tab,
    run,
    status,
    wait_for_status,
)

READY = "#net-run:not([disabled])"
ADDRESS = "?tab=network&tokens=64&method=moa-n0&link=slow-4g"
TEXT = "#net-view .text"
RESTORE = "#net-cut:text-is('Restore the connection')"
# By the page itself: on a busy machine the run may be over before a driver has found the button.
STATE = "#net-way .net-way[data-state={}]"
STREAMED = """() => !document.querySelector('#net-cut').disabled
  && String(document.querySelectorAll('#net-view .token').length)"""
PRESS = """([cycle, button]) => {
  if (document.querySelector(button).disabled || !document.querySelector(cycle)) return false;
  document.querySelector(button).click();
  return true;
}"""

LAYER = "place => Number(getComputedStyle(place).zIndex) || 0"


def figure(page, name):
    return page.inner_text(f"#net-view .value[data-figure={name}]")


def count(page, kind):
    return page.locator(f"{TEXT} .token{kind}").count()


def cut_after(page, cycles):
    """Run, and cut the link when there are so many cycles."""
    page.click("#net-run")
    assert page.wait_for_function(STREAMED).json_value() != "0", "there is text to go on with"
    page.wait_for_function(PRESS, arg=[f"{TEXT} .cycle:nth-of-type({cycles})", "#net-cut"])


FORGET = "async () => { for (const name of await caches.keys()) await caches.delete(name); }"


def test_two_drafters_are_cut_by_one_switch_and_stopped_by_one_button(page):
    page.evaluate(FORGET)  # what tests of other tabs have downloaded
    page.reload()
    wait_for_status(page, "Run first downloads the drafter: ", "net-")
    assert page.locator("#net-cut").is_disabled()
    assert "cut the connection while text streams" in status(page, "net-")
    page.wait_for_function(STRUCK, arg="#net-view")
    assert re.search(
        r"without a simulated connection; .+ Prompt: “.+”", page.inner_text("#net-view .told")
    )
    box = page.locator("#net-view .text")
    hidden = "one => one.scrollHeight - one.clientHeight"
    page.set_viewport_size({"width": 390, "height": 844})
    assert box.evaluate(hidden) > 8
    for press, whole in (("Show whole text", True), ("Show less", False)):
        page.click(f"#net-view .unfolds:text-is('{press}')")
        assert (box.evaluate(hidden) <= 0) == whole
    page.set_viewport_size({"width": 1280, "height": 800})
    choose(page, "Duel with EAGLE-2", "#net-method")
    page.wait_for_selector("#net-rival .text")
    wait_for_status(page, "both drafters: ", "net-")
    page.click("#net-load")
    page.wait_for_selector("#net-load", state="hidden")
    page.wait_for_selector(READY)  # both are in the browser, and nothing was run
    page.click("#net-run")
    page.wait_for_selector("#net-rival .token[data-token=bonus]")
    assert page.locator("#net-view .told").is_hidden()
    page.wait_for_selector(STATE.format("idle"))
    cut_after(page, 2)
    for view in ("#net-view", "#net-rival"):
        page.wait_for_selector(f"{view} .token[data-token=offline]")
    page.click(RESTORE)
    page.wait_for_selector(STATE.format("idle"))
    page.wait_for_selector(READY)
    assert page.evaluate(KEPT, "#net-view") == page.evaluate(KEPT, "#net-rival")
    said = status(page, "net-")
    assert said.startswith(("MoA", "EAGLE", "Both gain"))
    assert said.endswith("Both wrote the same text."), "each lane has its counts"
    keep_picture(page, "network-duel")
    page.click("#net-run")
    page.click("#net-stop:not([disabled])")
    wait_for_status(page, "Stopped by you.", "net-")
    assert "gain" not in status(page, "net-"), "no verdict on a part"


def test_run_is_pressed_once_though_the_server_takes_its_time(page):
    choose(page, "MoA N=0", "#net-method")
    held = []
    page.route("**/device/ids", lambda route: held.append(route))
    with page.expect_request("**/device/ids"):
        page.click("#net-run")
    assert page.locator("#net-run").is_disabled()
    held.pop().continue_()
    page.unroute("**/device/ids")
    wait_for_status(page, " instead of 64; every word", "net-")


def test_a_drafter_that_leaves_the_duel_ends_its_thread(page):
    for _ in range(2):
        with page.expect_worker() as thread:
            choose(page, "Duel with EAGLE-2", "#net-method")
        page.wait_for_selector("#net-rival .text")
        with thread.value.expect_event("close"):
            choose(page, "MoA N=0", "#net-method")


def seconds(words):
    return float(words.split()[0])


def test_what_a_drafter_saves_is_computed_for_a_round_trip_of_the_visitors(page):
    page.reload()
    page.wait_for_selector("#net-trips .whose:has-text('Recorded')")  # no run yet
    calls = [
        int(one) for one in re.findall(r"(\d+) round trip", page.inner_text("#net-trips .bars"))
    ]
    ours, plain, *streamed = calls
    assert ours < plain and streamed == [1, 1]
    whole = []
    for trip in (0, 100):
        page.get_by_label("Round trip to the server").fill(str(trip))
        whole.append(page.locator("#net-trips .bars b").all_inner_texts())
        drafted, each, stream, both = whole[-1]
        assert page.inner_text("#net-trips .whose") == "Recorded without a cut:"
        said = page.inner_text("#net-trips .streams")
        assert said.startswith(f"Recorded: {ours} round trips instead of {plain}")
        computed = f"each call: {drafted} with a drafter on your side, {each} without one."
        assert computed in said
        assert said.endswith(f" A stream from the server: {stream}, with a drafter there {both}.")
        if seconds(drafted) != seconds(both):
            faster = "A stream is faster, but stops at a cut." in page.inner_text(
                "#net-trips .conclusion"
            )
            assert faster == (seconds(both) < seconds(drafted))
        if seconds(drafted) != seconds(each):  # times are rounded
            slower = re.search(r"Guessing is slower: it .*", said)
            assert bool(slower) == (seconds(drafted) > seconds(each))
    for before, after, count in zip(*whole, calls, strict=True):
        gained = seconds(after) - seconds(before)
        assert gained == pytest.approx(count * 0.1, abs=0.11)


def test_a_cycle_that_the_end_cuts_short_counts_what_was_written_as_on_the_other_tabs(open_page):
    page = open_page("?tab=network&tokens=2&method=moa-n0&link=none", ready=READY)
    page.click("#net-run")
    wait_for_status(page, "2 round trips instead of 2; every word", "net-")
    page.get_by_label("Round trip to the server").fill("100")
    said = page.text_content("#net-trips .whose")
    assert said == "Your run, without the time of a cut:"
    bars = page.inner_text("#net-trips .bars")
    first = r"[\d.]+\ss MoA N=0: 2 round trips × 100 ms = 0.2\ss, [\d.]+\ss in the target"
    assert re.match(rf"{first}, [\d.]+\ss in the drafter\n", bars)
    assert bars.count(" in the target") == 4 and bars.count(" in the drafter") == 2
    assert "as recorded" in page.inner_text("#net-trips .note")
    assert figure(page, "tau") == "1.00"  # one token was left to write


def test_what_is_written_offline_saves_no_round_trips(page):
    choose(page, "MoA N=0", "#net-method")
    cut_after(page, 2)
    page.wait_for_selector(f"{TEXT} .token[data-token=offline]")
    assert re.search("Restore .*, (and the target checks|else the run ends)", status(page, "net-"))
    page.click("#net-stop")
    wait_for_status(page, "Stopped by you.", "net-")
    assert "Recorded" not in page.inner_text("#net-trips .whose")
    said, verified = status(page, "net-"), count(page, ":not(.offline):not(.rejected)")
    assert re.match(rf"\d+ round trips? for {verified} tokens? that the target checked\.", said)
    assert f"never checked: {count(page, '.offline')} more token" in said


def test_cut_while_text_streams_the_drafter_goes_on_and_the_text_heals(page):
    choose(page, "MoA N=0", "#net-method")
    cut_after(page, 3)
    page.mouse.wheel(0, 4000)
    page.wait_for_function(SEEN, arg="#net-cut")  # it stays in reach
    fields = page.locator("#net-ask span").evaluate_all(f"all => Math.max(...all.map({LAYER}))")
    assert page.locator("#net-bar").evaluate(LAYER) > fields, "nothing shines through"
    wait_for_status(page, "alone", "net-")
    page.wait_for_selector(f"{TEXT} .token[data-token=offline] >> nth=5")
    for _ in both_themes(page):
        assert can_be_read(page, f"{TEXT} .offline .mark", "#net-cut", "#net-status .status-line")
        keep_picture(page, "network-cut")
    wait_for_status(page, "The drafter has reached the run’s length: ", "net-")
    before = page.locator("#net-bar").bounding_box()
    page.click(RESTORE)
    page.wait_for_selector(STATE.format("idle"))
    page.wait_for_selector(READY)
    assert page.locator("#net-bar").bounding_box() == before, "nothing jumps"
    assert page.evaluate(STRUCK, "#net-view")
    said = status(page, "net-")
    assert (
        " instead of 64; every word is the target’s. " in said
        and "written alone, the target kept" in said
    )
    assert not count(page, ".offline")
    assert count(page, ".confirmed") + count(page, ".changed") == int(figure(page, "alone"))
    assert count(page, "[data-token=accepted]") and count(page, "[data-token=bonus]")
    page.click("#net-view summary")
    assert float(figure(page, "level").split()[0]) > 0
    assert int(figure(page, "trip").split()[0]) >= 150, "the delay is added, and measured"
    assert figure(page, "up").endswith(" B") and figure(page, "down") != "–"
    for _ in every_look(page):
        assert can_be_read(page, "#net-intro p", "#net-view .note", "#net-view .legend .mark")
        keep_picture(page, "network")
    place = page.locator("#net-bar").evaluate("bar => getComputedStyle(bar).position")
    assert place != "sticky", "on a phone, it covers no text once the run is over"
    text = page.evaluate(KEPT, "#net-view")
    open_tab(page, "Live")  # where the address set nothing
    assert run(page).startswith(text), "it writes 128 tokens there"
