"""Several visitors at once: each gets what they would get alone."""

import pytest

from tests.browser.conftest import LOOKS
from tests.browser.driving import KEPT, LANE, NEW_RUN, RUN, finish, run, wait_for_status

pytestmark = pytest.mark.browser
METHODS = ("moa-n1", "eagle2", "vanilla")
LONG = "?tab=compare&tokens=512&repeats=5&depth=12&breadth=16&budget=64"
ADDRESS = "?tab=live&method={}&tokens=24&temperature=1.5&seed={}"


def test_three_visitors_at_once_get_their_own_texts(open_page):
    """Seeds differ, so each one's text is another; methods differ, so runs take turns unevenly."""
    pages = [open_page(ADDRESS.format(method, seed)) for seed, method in enumerate(METHODS)]
    alone = []
    for number, page in enumerate(pages):
        page.bring_to_front()  # one behind another is painted once a second
        page.wait_for_selector(RUN)
        alone.append(run(page, f"Visitor {number}: once upon a time"))
    assert len(set(alone)) == 3
    before = [page.locator(LANE).get_attribute("data-id") for page in pages]
    for page in pages:
        page.evaluate("document.querySelector('#run').click()")
    for page, old in zip(pages, before, strict=True):
        page.bring_to_front()
        page.wait_for_function(NEW_RUN, arg=old)
        finish(page)
    assert [page.evaluate(KEPT) for page in pages] == alone


def test_who_waits_is_told_and_a_closed_page_frees_its_place(open_page):
    """Not all in one window: it has only so many connections to a server."""
    first = open_page(LONG, ready="#compare-run:not([disabled])")
    second = open_page("?tab=live", LOOKS[-1], RUN)
    first.click("#compare-run")
    wait_for_status(first, "Repeat 1 of", "compare-")
    second.click("#run")
    wait_for_status(second, "Another run is in progress")
    second.click("#stop")
    first.close()
    wait_for_status(second, "Stopped before it began.")
    second.wait_for_selector(RUN)
