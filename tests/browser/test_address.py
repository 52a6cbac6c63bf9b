"""The address follows the tabs, Back and Forward lead through them; one prompt is in them all."""

from demo.common.controls import EXAMPLES
from tests.browser.driving import HOLDS, RUN, open_tab, wait_for_status

ADDRESS, READY = "?tab=nowhere&__theme=light&method=moa-n1&prompt=First", RUN
SHOWN = {"live": "#run", "compare": "#compare-run", "tli": "#layers-focus"}
BOXES = {"Live": "#prompt", "Side by side": "#compare-prompt", "Network": "#net-prompt"}


def stands(page, tab, named=None):
    """Whether a tab is open and named in the address, in the page that was there before."""
    page.wait_for_selector(f"{SHOWN[tab]}:visible")
    address = "new URLSearchParams(window.location.search).get('tab')"
    page.wait_for_function(f"{address} === '{named or tab}'")
    return page.evaluate("window.same === true")


def test_back_and_forward_lead_from_tab_to_tab_without_loading_the_page(page):
    wait_for_status(page, "was not used: tab must be one of live, compare, ")
    page.wait_for_function(HOLDS, arg=["#prompt", "First"])
    page.evaluate("window.same = true")
    length = page.evaluate("history.length")
    open_tab(page, "Side by side")
    assert stands(page, "compare") and "method" not in page.url and "__theme=light" in page.url
    open_tab(page, "Layers (TLI)")
    assert stands(page, "tli")
    page.go_back()
    assert stands(page, "compare")
    page.wait_for_function(HOLDS, arg=["#compare-prompt", "First"])
    page.fill("#compare-prompt textarea", "Second")
    page.wait_for_function("sessionStorage.getItem('moa-prompt') === 'Second'")
    page.go_back()
    assert stands(page, "live", "nowhere")
    page.wait_for_function(HOLDS, arg=["#prompt", "Second"])
    page.wait_for_function("!window.location.search.includes('prompt')")
    assert "method=moa-n1" in page.url
    page.go_forward()
    assert stands(page, "compare")
    assert page.evaluate("history.length") == length + 2  # nothing is written while going back


def test_the_newest_prompt_is_in_every_tab_and_an_example_needs_no_server(page):
    mine = "A fox & a hen? ${6*7} <b>é</b>\nand more"
    open_tab(page, "Live")
    page.fill("#prompt textarea", mine)
    tabs = [*BOXES, "Network"]
    for name in tabs:
        open_tab(page, name)
        page.wait_for_function(HOLDS, arg=[BOXES[name], mine])
    page.route("**/gradio_api/**", lambda route: None)  # nothing is ever answered
    page.locator("#net-examples").get_by_text("List").click()
    for name in tabs:
        open_tab(page, name)
        page.wait_for_function(HOLDS, arg=[BOXES[name], EXAMPLES["List"]])
    page.unroute_all(behavior="ignoreErrors")
