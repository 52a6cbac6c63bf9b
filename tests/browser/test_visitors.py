"""Several visitors at once: each gets what they would get alone."""

import pytest

from tests.browser.driving import KEPT, LANE, NEW_RUN, RUN, finish, run

pytestmark = pytest.mark.browser
METHODS = ("moa-n1", "eagle2", "vanilla")
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
