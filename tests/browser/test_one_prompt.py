"""One prompt for the tabs that ask for one, also when the page is loaded again."""

import pytest

from tests.browser.driving import open_tab, type_prompt

pytestmark = pytest.mark.browser

BOXES = {"Live": "#prompt", "Side by side": "#compare-prompt", "TLI": "#sweep-prompt"}
HOLDS = "([box, text]) => document.querySelector(`${box} textarea`)?.value === text"


def holds(page, name, text):
    """Whether a tab, once opened, has this prompt."""
    open_tab(page, name)
    page.wait_for_function(HOLDS, arg=[BOXES[name], text])
    return True


def test_the_newest_prompt_is_in_every_tab_and_stays_when_the_page_is_loaded_again(page):
    mine, other = "A fox & a hen? ${6*7} <b>é</b>\nand more", "Say 742 in Spanish."
    type_prompt(page, mine)
    assert all(holds(page, name, mine) for name in ("Side by side", "TLI", "Live"))
    open_tab(page, "TLI")
    page.locator("#sweep-examples").get_by_text("Spanish").click()
    assert all(holds(page, name, other) for name in ("Live", "Side by side"))
    page.fill("#compare-prompt textarea", mine)
    page.reload()
    page.wait_for_selector("#compare-run:not([disabled])")
    assert all(holds(page, name, mine) for name in BOXES)


def test_an_address_brings_its_prompt_to_every_tab_until_another_is_written(open_page):
    page = open_page("?tab=tli&prompt=From+the+address", ready="#sweep-run:not([disabled])")
    assert all(holds(page, name, "From the address") for name in ("TLI", "Live", "Side by side"))
    page.fill("#compare-prompt textarea", "Mine")
    page.wait_for_function("!window.location.search.includes('prompt')")
    page.reload()
    page.wait_for_selector("#compare-run:not([disabled])")
    assert all(holds(page, name, "Mine") for name in ("Side by side", "Live"))
    fresh = open_page("?tab=tli", ready="#sweep-run:not([disabled])")
    assert fresh.input_value("#sweep-prompt textarea").startswith("Continue the story")
