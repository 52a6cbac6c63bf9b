"""The address follows the tabs, Back and Forward lead through them; one prompt is in them all."""

import pytest

from tests.browser.conftest import LOOKS
from tests.browser.driving import (
    HOLDS,
    open_tab,
    status,
    type_prompt,
    wait_for_status,
)

pytestmark = pytest.mark.browser

SHOWN = {"live": "#run", "compare": "#compare-run", "tli": "#sweep-run"}
BOXES = {"Live": "#prompt", "Side by side": "#compare-prompt", "Layers (TLI)": "#sweep-prompt"}
KEPT = "text => sessionStorage.getItem('prompt') === text"
LATE = """box => {
  const area = document.querySelector(`${box} textarea`);
  area.value = "of old";
  area.dispatchEvent(new Event("input", { bubbles: true }));
}"""


def stands(page, tab):
    """Whether a tab is open and in the address, in the page that was there before."""
    page.wait_for_selector(f"{SHOWN[tab]}:visible")
    page.wait_for_function(f"new URLSearchParams(window.location.search).get('tab') === '{tab}'")
    return page.evaluate("window.same === true")


def test_back_and_forward_lead_from_tab_to_tab_without_loading_the_page(open_page):
    address = "?__theme=light&method=moa-n1&prompt=First"
    page = open_page(address, LOOKS[-1], "#run:not([disabled])")
    words = page.inner_text("footer").split()
    assert "Settings" in words and words[0] != "·" and ("·" in words) == ("API" in words)
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


def holds(page, name, text):
    """Whether a tab, once opened, has this prompt."""
    open_tab(page, name)
    page.wait_for_function(HOLDS, arg=[BOXES[name], text])
    return True


def test_the_newest_prompt_is_in_every_tab_and_stays_when_the_page_is_loaded_again(page):
    mine, other = "A fox & a hen? ${6*7} <b>é</b>\nand more", "Say 742 in Spanish."
    type_prompt(page, mine)
    assert all(holds(page, name, mine) for name in ("Side by side", "Layers (TLI)", "Live"))
    open_tab(page, "Layers (TLI)")
    page.locator("#sweep-examples").get_by_text("Spanish").click()
    assert all(holds(page, name, other) for name in ("Live", "Side by side"))
    page.fill("#compare-prompt textarea", mine)
    page.wait_for_function(KEPT, arg=mine)
    page.reload()
    page.wait_for_selector("#compare-run:not([disabled])")
    assert all(holds(page, name, mine) for name in BOXES)


def test_an_example_is_the_prompt_at_once_without_the_server(page):
    open_tab(page, "Layers (TLI)")
    page.route("**/gradio_api/**", lambda route: None)  # nothing is ever answered
    page.locator("#sweep-examples").get_by_text("Spanish").click()
    assert all(holds(page, name, "Say 742 in Spanish.") for name in BOXES)
    page.unroute_all(behavior="ignoreErrors")


def test_an_address_brings_its_prompt_to_every_tab_until_another_is_written(open_page):
    page = open_page("?tab=tli&prompt=From+the+address", ready="#sweep-run:not([disabled])")
    assert all(
        holds(page, name, "From the address") for name in ("Layers (TLI)", "Live", "Side by side")
    )
    page.fill("#compare-prompt textarea", "Mine")
    page.wait_for_function("!window.location.search.includes('prompt')")
    page.wait_for_function(KEPT, arg="Mine")
    page.reload()
    page.wait_for_selector("#compare-run:not([disabled])")
    assert all(holds(page, name, "Mine") for name in ("Side by side", "Live"))
    fresh = open_page("?tab=tli", ready="#sweep-run:not([disabled])")
    assert fresh.input_value("#sweep-prompt textarea").startswith("Write a story")


def test_what_a_box_in_another_tab_says_late_is_not_the_newest(page):
    assert holds(page, "Side by side", page.input_value("#prompt textarea"))
    page.fill("#compare-prompt textarea", "Mine")
    assert holds(page, "Layers (TLI)", "Mine")
    page.evaluate(LATE, "#compare-prompt")
    page.wait_for_timeout(300)
    assert all(holds(page, name, "Mine") for name in ("Live", "Layers (TLI)"))
