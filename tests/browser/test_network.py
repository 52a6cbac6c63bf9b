"""The Network tab, driven as a visitor would: a drafter in this browser, cuts, and what heals."""

from urllib.parse import urlencode

import pytest

from tests.browser.conftest import LOOKS, both_themes, every_look, keep_picture
from tests.browser.driving import (
    KEPT,
    SEEN,
    can_be_read,
    open_tab,
    run,
    status,
    wait_for_status,
)

pytestmark = pytest.mark.browser

READY = "#net-run:not([disabled])"
TEXT = "#net-view .text"
RESTORE = "#net-cut:text-is('Restore the link')"
# By the page itself: on a busy machine the run may be over before a driver has found the button.
PRESS = """([cycle, button]) => {
  if (!document.querySelector(cycle)) return false;
  document.querySelector(button).click();
  return true;
}"""


def address(**settings):
    return f"?{urlencode({'tab': 'network', 'pace': 'full', **settings})}"


def figure(page, name):
    return page.inner_text(f"#net-view [data-figure={name}]")


def count(page, kind=""):
    return page.locator(f"{TEXT} .token{kind}").count()


def press_after(page, cycles, button):
    page.wait_for_function(PRESS, arg=[f"{TEXT} .cycle:nth-of-type({cycles})", button])


def finish(page):
    page.wait_for_function("() => network.lanes[0].state === 'done'")
    page.wait_for_selector(READY)


def test_a_run_tells_its_size_and_its_speed(open_page):
    page = open_page(address(tokens=24, method="moa-n1", link="4g"), ready=READY)
    wait_for_status(page, "B, downloaded once.", "net-")
    page.click("#net-run")
    finish(page)
    assert "24 tokens in " in status(page, "net-")
    assert float(figure(page, "level").split()[0]) > 0
    assert int(figure(page, "trip").split()[0]) >= 60, "the delay is added, and measured"
    assert figure(page, "up").endswith(" B") and figure(page, "down") != "–"
    kinds = page.evaluate(
        f"() => [...document.querySelectorAll('{TEXT} [data-token]')].map(one => one.dataset.token)"
    )
    assert {"accepted", "bonus"} <= set(kinds) <= {"accepted", "rejected", "bonus"}
    text = page.evaluate(KEPT, "#net-view")
    open_tab(page, "Live")  # where the address set nothing: it writes on beyond 24 tokens
    assert run(page).startswith(text)


def test_cut_while_text_streams_the_drafter_goes_on_and_the_text_heals(open_page):
    page = open_page(address(tokens=64, method="moa-n0", link="slow-4g"), LOOKS[-1], READY)
    assert page.locator("#net-cut").is_disabled()
    page.click("#net-run")
    press_after(page, 3, "#net-cut")
    page.mouse.wheel(0, 4000)
    page.wait_for_function(SEEN, arg="#net-cut")  # it stays in reach
    wait_for_status(page, "the drafter continues alone", "net-")
    page.wait_for_selector(f"{TEXT} .token[data-token=offline] >> nth=5")
    for _ in both_themes(page):
        assert can_be_read(page, f"{TEXT} .offline .mark", "#net-cut", "#net-status .status-line")
        keep_picture(page, "network-cut")
    before = page.locator("#net-bar").bounding_box()
    page.click(RESTORE)
    finish(page)
    assert page.locator("#net-bar").bounding_box() == before, "nothing jumps"
    assert "The target kept" in status(page, "net-") and not count(page, ".offline")
    assert count(page, ".confirmed") + count(page, ".changed") == int(figure(page, "alone"))
    if count(page, ".changed"):
        assert "from token " in status(page, "net-")
    for _ in every_look(page):
        assert can_be_read(page, "#net-intro p", "#net-view .note", "#net-view .legend li")
        keep_picture(page, "network")
    text = page.evaluate(KEPT, "#net-view")
    open_tab(page, "Live")
    assert run(page).startswith(text), "it writes 128 tokens there"


def test_two_drafters_are_cut_by_one_switch_and_stopped_by_one_button(open_page):
    page = open_page(address(tokens=64, link="slow-4g"), ready=READY)
    page.get_by_label("Duel").check()
    page.wait_for_selector("#net-rival .text")
    page.click("#net-run")
    press_after(page, 2, "#net-cut")
    for view in ("#net-view", "#net-rival"):
        page.wait_for_selector(f"{view} .token[data-token=offline]")
    page.click(RESTORE)
    page.wait_for_function("() => network.lanes.every(({ state }) => state === 'done')")
    page.wait_for_selector(READY)
    assert page.evaluate(KEPT, "#net-view") == page.evaluate(KEPT, "#net-rival")
    said = status(page, "net-")
    assert "per round trip" in said and said.endswith("Both wrote the same text.")
    keep_picture(page, "network-duel")
    page.click("#net-run")
    page.click("#net-stop:not([disabled])")
    wait_for_status(page, "stopped by you", "net-")
