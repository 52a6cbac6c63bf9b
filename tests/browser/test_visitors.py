"""Several visitors at once: each gets what they would get alone."""

import pytest

from tests.browser.driving import KEPT, NEW_RUN, finish, start, type_prompt

pytestmark = pytest.mark.browser
METHODS = ("moa-n1", "eagle2", "vanilla")
ADDRESS = "?tab=live&method={}&tokens=40&temperature=1.5&seed={}"


def test_three_visitors_at_once_get_their_own_texts(open_page):
    """Seeds differ, so each one's text is another; methods differ, so runs take turns unevenly."""
    pages = [open_page(ADDRESS.format(method, seed)) for seed, method in enumerate(METHODS)]
    alone = []
    for number, page in enumerate(pages):
        page.wait_for_selector("#run:not([disabled])")
        type_prompt(page, f"Visitor {number}: once upon a time")
        start(page)
        finish(page)
        alone.append(page.evaluate(KEPT))
    assert len(set(alone)) == 3
    before = [page.locator(".token-view").get_attribute("data-run") for page in pages]
    for page in pages:
        page.click("#run")
    for page, old in zip(pages, before, strict=True):
        page.wait_for_function(NEW_RUN, arg=old)
        finish(page)
    assert [page.evaluate(KEPT) for page in pages] == alone
