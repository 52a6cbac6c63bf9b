"""The address follows the tabs, and Back and Forward lead through them."""

import pytest

from tests.browser.conftest import LOOKS
from tests.browser.driving import HOLDS, open_tab, status, type_prompt, wait_for_status

pytestmark = pytest.mark.browser

SHOWN = {"live": "#run", "compare": "#compare-run", "tli": "#sweep-run"}


def stands(page, tab):
    """Whether a tab is open and in the address, in the page that was there before."""
    page.wait_for_selector(f"{SHOWN[tab]}:visible")
    page.wait_for_function(f"new URLSearchParams(window.location.search).get('tab') === '{tab}'")
    return page.evaluate("window.same === true")


@pytest.mark.parametrize("look", [LOOKS[0], LOOKS[-1]], ids=str)
def test_back_and_forward_lead_from_tab_to_tab_without_loading_the_page(open_page, look):
    page = open_page("?__theme=light&method=moa-n1&prompt=First", look, "#run:not([disabled])")
    page.wait_for_function(HOLDS, arg=["#prompt", "First"])
    page.evaluate("window.same = true")
    length = page.evaluate("history.length")
    open_tab(page, "Side by side")
    assert stands(page, "compare") and "method" not in page.url and "__theme=light" in page.url
    open_tab(page, "Layers (TLI)")
    assert stands(page, "tli")
    page.wait_for_function(HOLDS, arg=["#sweep-prompt", "First"])
    page.fill("#sweep-prompt textarea", "Second")
    page.wait_for_function("sessionStorage.getItem('prompt') === 'Second'")
    for tab in ("compare", "live"):
        page.go_back()
        assert stands(page, tab)
    page.wait_for_function(HOLDS, arg=["#prompt", "Second"])
    page.wait_for_function("!window.location.search.includes('prompt')")
    assert "method=moa-n1" in page.url
    page.go_forward()
    assert stands(page, "compare")
    assert page.evaluate("history.length") == length + 2  # nothing is written while going back
    open_tab(page, "Live")
    assert stands(page, "live") and page.evaluate("history.length") == length + 2


def test_an_address_that_names_a_tab_writes_nothing_into_the_history(open_page):
    page = open_page("?tab=tli", ready="#sweep-run:not([disabled])")
    page.evaluate("window.same = true")
    before = page.evaluate("history.length")
    assert stands(page, "tli")
    open_tab(page, "Live")
    assert stands(page, "live") and page.evaluate("history.length") == before + 1
    type_prompt(page, "Mine")
    page.wait_for_function("window.newestPrompt === 'Mine'")  # told once the box has settled
    page.go_back()
    assert stands(page, "tli")
    page.wait_for_function("document.querySelector('#sweep-prompt textarea').value === 'Mine'")


def test_an_address_of_no_tab_is_told_so_and_becomes_lives(open_page):
    page = open_page("?tab=nowhere&n=9", ready="#run:not([disabled])")
    wait_for_status(page, "could be used: there is no setting n, only target")
    assert "tab must be one of live, compare, " in status(page)
    page.wait_for_function("window.location.search === '?tab=live&n=9'")
    page.evaluate("window.same = true")
    open_tab(page, "Layers (TLI)")
    assert stands(page, "tli")
    page.go_back()
    assert stands(page, "live")


@pytest.mark.parametrize("look", [LOOKS[0], LOOKS[-1]], ids=str)
def test_no_dot_stands_alone_in_the_footer(open_page, look):
    words = open_page(look=look).inner_text("footer").split()
    assert "Settings" in words and words[0] != "·"
    assert ("·" in words) == ("API" in words)
