"""The page by keyboard alone, and what a screen reader is told while a run goes on."""

from tests.browser.driving import LANE, NEW_RUN, RUN, SEEN, TEXT, open_tab, run, wait_for_status

ADDRESS, READY = "?tokens=512&depth=12&breadth=16&budget=64", RUN

# What has the focus: whether it is wanted, what it is called, and whether it can be seen.
FOCUSED = """wanted => {
  const node = document.activeElement;
  const style = getComputedStyle(node);
  const named = node.getAttribute('aria-label') || node.labels?.[0]?.textContent || node.title;
  return {
    found: node.matches(wanted),
    name: (named || node.textContent).trim(),
    marked: style.outlineStyle === 'solid' && parseFloat(style.outlineWidth) >= 2,
    html: node.outerHTML.slice(0, 200),
  };
}"""
# Every text that comes to stand in a region that a screen reader reads out.
LISTEN = """() => {
  const regions = '[role=status], [role=alert], [role=log], output, [aria-live=polite]';
  window.told = [];
  window.listener?.disconnect(); // of a try before
  window.listener = new MutationObserver(changes => {
    const changed = new Set(changes.map(
      ({ target }) => (target.closest ? target : target.parentElement)?.closest(regions)));
    for (const region of changed) {
      const text = region?.textContent.trim();
      if (text) window.told.push(text);
    }
  });
  window.listener.observe(document.body, { childList: true, characterData: true, subtree: true });
}"""
MOVING = """() => document.getAnimations().filter(
  one => one.effect.getComputedTiming().duration > 1).length"""


def go_to(page, wanted, key="Tab"):
    """Press Tab until this has the focus. All that gets it on the way has a name and a frame."""
    for _ in range(60):
        page.keyboard.press(key)
        if page.evaluate("document.activeElement === document.body"):
            continue  # past the end, or what had it was drawn anew
        now = page.evaluate(FOCUSED, wanted)
        assert now["name"] and now["marked"], now
        if now["found"]:
            return
    raise AssertionError(f"{wanted} is never reached")


def write(page, text):
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def test_from_a_prompt_to_the_verdict_without_a_mouse(page):
    page.emulate_media(reduced_motion="reduce")  # the race shows its end at once
    go_to(page, "#prompt textarea")
    write(page, "Tell me a story.")
    go_to(page, "#run")
    before = page.locator(LANE).get_attribute("data-id")
    page.keyboard.press("Enter")
    page.wait_for_function(NEW_RUN, arg=before)
    page.wait_for_function("document.activeElement.id === 'stop'")  # by itself
    now = page.evaluate(FOCUSED, "#stop")
    assert now["name"] and now["marked"], now
    page.keyboard.press("Enter")
    page.wait_for_selector("#stage:is([data-run=stopped], [data-run=done])")  # it may be over
    page.wait_for_function("document.activeElement.id === 'run'")
    go_to(page, "#method input")
    page.wait_for_selector("[role=listbox]")
    page.keyboard.press("Tab")
    page.wait_for_selector("[role=listbox]", state="detached")
    go_to(page, "[role=tab][data-tab-id=live]", "Shift+Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#compare-run:not([disabled])")
    go_to(page, "#compare-prompt textarea")
    write(page, "Tell me a story.")
    go_to(page, "#compare-repeats input[type=range]")
    page.keyboard.press("Home")
    go_to(page, "#compare-run", "Shift+Tab")
    page.keyboard.press("Enter")
    wait_for_status(page, "All 3 runs are done.", "compare-")
    page.wait_for_function(SEEN, arg="#compare-verdict span")
    assert "MoA N=0" in page.inner_text("#compare-verdict")
    # What is drawn last: while parts of the page are exchanged, one that has the focus may go.
    page.wait_for_selector(".race .play")
    page.wait_for_selector("#compare-details .main-svg")
    assert page.inner_text(".race .play") == "Replay"  # it is over
    go_to(page, ".race .play")


def test_a_run_is_announced_in_one_sentence_and_nothing_moves_for_those_who_mind(page):
    page.emulate_media(reduced_motion="reduce")
    open_tab(page, "Live")
    page.evaluate(LISTEN)
    run(page, "Tell me a story.")
    assert page.locator(f"{TEXT} .cycle").count() > 20
    told = page.evaluate("window.told")
    assert len(told) <= 5, told  # waiting, writing, compared, and how it ended
    page.get_by_role(
        "button", name="Show this cycle slowly"
    ).click()  # in steps, which are no motion
    assert page.locator(".unjudged").count() == 1 and page.evaluate(MOVING) == 0
    page.wait_for_selector("[data-stage=tree][data-phase=checked]")
