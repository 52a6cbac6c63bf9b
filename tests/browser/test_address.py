"""The address follows the tabs, Back and Forward lead through them; one prompt is in them all."""

import pytest

from tests.browser.conftest import LOOKS
from tests.browser.driving import HOLDS, open_tab, type_prompt, wait_for_status

pytestmark = pytest.mark.browser

SHOWN = {"live": "#run", "compare": "#compare-run", "tli": "#sweep-run"}
BOXES = {"Live": "#prompt", "Side by side": "#compare-prompt", "Layers (TLI)": "#sweep-prompt"}


def stands(page, tab):
    """Whether a tab is open and in the address, in the page that was there before."""
    page.wait_for_selector(f"{SHOWN[tab]}:visible")
    named = "new URLSearchParams(window.location.search).get('tab') ?? 'live'"
    page.wait_for_function(f"({named}) === '{tab}'")
    return page.evaluate("window.same === true")


def holds(page, name, text):
    """Whether a tab, once opened, has this prompt."""
    open_tab(page, name)
    page.wait_for_function(HOLDS, arg=[BOXES[name], text])
    return True


def test_back_and_forward_lead_from_tab_to_tab_without_loading_the_page(open_page):
    address = "?__theme=light&method=moa-n1&prompt=First"
    page = open_page(address, LOOKS[-1], "#run:not([disabled])")
    page.wait_for_function(HOLDS, arg=["#prompt", "First"])
    page.evaluate("window.same = true")
    length = page.evaluate("history.length")
    open_tab(page, "Side by side")
    assert stands(page, "compare") and "method" not in page.url and "__theme=light" in page.url
    open_tab(page, "Layers (TLI)")
    assert stands(page, "tli")
    page.wait_for_function(HOLDS, arg=["#sweep-prompt", "First"])
    page.fill("#sweep-prompt textarea", "Second")
    page.wait_for_function("window.newestPrompt === 'Second'")
    for tab in ("compare", "live"):
        page.go_back()
        assert stands(page, tab)
    page.wait_for_function(HOLDS, arg=["#prompt", "Second"])
    page.wait_for_function("!window.location.search.includes('prompt')")
    assert "method=moa-n1" in page.url
    page.go_forward()
    assert stands(page, "compare")
    assert page.evaluate("history.length") == length + 2  # nothing is written while going back


def test_an_address_of_no_tab_is_told_so_and_opens_live(open_page):
    page = open_page("?tab=nowhere", ready="#run:not([disabled])")
    wait_for_status(page, "was not used: tab must be one of live, compare, ")
    page.evaluate("window.same = true")
    open_tab(page, "Layers (TLI)")
    assert stands(page, "tli")
    page.go_back()
    page.wait_for_selector(f"{SHOWN['live']}:visible")
    page.go_forward()
    assert stands(page, "tli")


def test_the_newest_prompt_is_in_every_tab_and_an_example_needs_no_server(page):
    mine = "A fox & a hen? ${6*7} <b>é</b>\nand more"
    type_prompt(page, mine)
    assert all(holds(page, name, mine) for name in ("Side by side", "Layers (TLI)", "Live"))
    open_tab(page, "Layers (TLI)")
    page.route("**/gradio_api/**", lambda route: None)  # nothing is ever answered
    page.locator("#sweep-examples").get_by_text("Spanish").click()
    assert all(holds(page, name, "Say 742 in Spanish.") for name in BOXES)
    page.unroute_all(behavior="ignoreErrors")
