"""Several visitors at once: each gets what they would get alone."""

import pytest

from tests.browser.conftest import LOOKS
from tests.browser.driving import (
    KEPT,
    NEW_RUN,
    finish,
    start,
    status,
    type_prompt,
    wait_for_status,
)

pytestmark = pytest.mark.browser
METHODS = ("moa-n1", "eagle2", "vanilla")
LONG = "?tab=compare&tokens=512&repeats=5&trees=same&depth=12&breadth=16&budget=64"
ADDRESS = "?tab=live&pace=full&method={}&tokens=24&temperature=1.5&seed={}"


def test_three_visitors_at_once_get_their_own_texts(open_page):
    """Seeds differ, so each one's text is another; methods differ, so runs take turns unevenly."""
    pages = [open_page(ADDRESS.format(method, seed)) for seed, method in enumerate(METHODS)]
    alone = []
    for number, page in enumerate(pages):
        page.bring_to_front()  # one behind another is painted once a second
        page.wait_for_selector("#run:not([disabled])")
        type_prompt(page, f"Visitor {number}: once upon a time")
        start(page)
        finish(page)
        alone.append(page.evaluate(KEPT))
    assert len(set(alone)) == 3
    before = [page.locator(".token-view").get_attribute("data-id") for page in pages]
    for page in pages:
        page.evaluate("document.querySelector('#run').click()")
    for page, old in zip(pages, before, strict=True):
        page.bring_to_front()
        page.wait_for_function(NEW_RUN, arg=old)
        finish(page)
    assert [page.evaluate(KEPT) for page in pages] == alone


def test_who_waits_sees_their_place_and_a_closed_tab_frees_the_one_before(open_page):
    """A word on the place that was true when Run was pressed must not stay while it changes.

    Not all in one window: it has only so many connections to a server.
    """
    first, second = (open_page(LONG, look, "#compare-run:not([disabled])") for look in LOOKS)
    third = open_page("?tab=live", LOOKS[-1], "#run:not([disabled])")
    first.click("#compare-run")
    wait_for_status(first, "One run after the other", "compare-")
    second.click("#compare-run")
    wait_for_status(second, "Another run is going on", "compare-")
    third.click("#run")
    wait_for_status(third, "2 runs are ahead of yours")
    first.close()
    wait_for_status(third, "Another run is going on")
    third.click("#stop")
    wait_for_status(third, "Stopping. Your run will not begin")
    second.click("#compare-stop")
    wait_for_status(third, "Stopped before it began.")
    wait_for_status(second, "Stopped", "compare-")
    third.wait_for_selector("#run:not([disabled])")


def test_a_word_on_waiting_that_comes_late_is_not_shown_over_the_last_one(open_page):
    first = open_page(LONG, ready="#compare-run:not([disabled])")
    second = open_page("?tab=live", LOOKS[-1], "#run:not([disabled])")
    type_prompt(second, " ")
    first.click("#compare-run")
    wait_for_status(first, "One run after the other", "compare-")
    second.click("#run")
    wait_for_status(second, "Another run is going on")
    held = []
    hold = lambda route: held.append((route, route.fetch()))  # noqa: E731  what tells it anew
    second.route("**/run/predict*", hold, times=1)
    with second.expect_request("**/run/predict*"):
        pass
    second.wait_for_timeout(500)
    first.click("#compare-stop")
    wait_for_status(second, "The prompt is empty")
    second.wait_for_selector("#run:not([disabled])")
    [(route, answer)] = held
    assert "Another run is going on" in answer.text()
    route.fulfill(response=answer)
    second.wait_for_timeout(500)
    assert status(second).startswith("The prompt is empty")
