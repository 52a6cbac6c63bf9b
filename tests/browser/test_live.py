"""The stage, driven as a visitor would, by the hooks that it keeps for whoever automates it."""

import json
import re

from demo.common.controls import EXAMPLES
from tests.browser.conftest import LOOKS, every_look, keep_picture, new_tab
from tests.browser.driving import (
    DONE,
    HIDDEN,
    KEPT,
    LANE,
    PLAIN,
    RUN,
    SHIFTS,
    SMALL_RUN,
    STORY,
    TEXT,
    TREE,
    can_be_read,
    figure,
    finish,
    headline,
    open_tab,
    press,
    run,
    settings,
    slowed,
    start,
    status,
    wait_for_status,
)

ADDRESS, READY = SMALL_RUN, RUN
BUSY = "this machine was too busy to tell"
# Stop is pressed as a run's first words come, and the server does not hear of it: as if the run had
# ended before.
UNHEARD = """lane => {
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (text) {
    if (!text.includes('"stop"')) send.call(this, text);
  };
  const { dataset } = lane, before = dataset.id;
  new MutationObserver((_, watcher) => {
    if ((dataset.id ?? before) === before) return;
    watcher.disconnect();
    document.querySelector("#stop").click();
  }).observe(lane, { attributes: true });
}"""
FRAMES = """{
  const ask = window.requestAnimationFrame.bind(window);
  window.asked = 0;
  window.requestAnimationFrame = (act) => { window.asked += 1; return ask(act); };
}"""
ASKED = """async () => {
  const before = asked;
  await new Promise((done) => setTimeout(done, 1000));
  return asked - before;
}"""
FORBIDDEN = """Object.defineProperty(window, "sessionStorage", {
  get() { throw new DOMException("", "SecurityError"); },
});"""
IN_PLAIN = """() => {
  const runs = document.querySelector('#view .headline').textContent.includes('runs now');
  if (runs) document.querySelector('#stop').click();
  return runs;
}"""
# Whether a text is larger than its box, where it begins, and whether the hint to scroll is there.
READ_FROM = "one => [one.scrollHeight > one.clientHeight, one.scrollTop]"
WHOLE = "one => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth"
HINT = """one => [one.scrollHeight > one.clientHeight || one.scrollWidth > one.clientWidth,
  getComputedStyle(one, '::after').content.includes('Scroll')]"""
IN_VIEW = """one => one.getBoundingClientRect().top
  - document.querySelector('#stage').getBoundingClientRect().top"""
# Of this tree, for three accepted paths, and of a chain that was accepted.
#      0 -> 1 -> 2 -> 5, 1 -> 3, 0 -> 4
STRUCK_OUT = """async () => {
  const { struck } = await import("/demo/common/tokens/view.js");
  const tree = { parents: [-1, 0, 1, 1, 0, 2], draft: [1, 9048, 6703, 4066, 1353, 8187] };
  const chain = { parents: [-1, 0], draft: [1, 9048] };
  return [struck({ ...tree, path: [1] }), struck({ ...tree, path: [1, 2, 5] }),
    struck({ ...tree, path: [] }), struck({ ...chain, path: [1] })[0]];
}"""


def count(page):
    return page.inner_text("#view .pacer .count").split(",")[0]


def state(page):
    return page.get_attribute("#stage", "data-run")


def test_both_lanes_play_a_recording_until_run_is_pressed(open_page):
    page = open_page()
    assert state(page) == "recorded" and page.locator(".badge:visible").count() == 2
    for lane in (LANE, PLAIN):
        page.wait_for_selector(f"{lane}[data-state=done]")
    assert figure(page, "exact") == 1 and figure(page, "calls") > 10
    page.mouse.click(2, 2)
    page.keyboard.press("x")
    assert state(page) == "recorded" and page.locator("#charts svg").count() == 2
    assert headline(page).startswith("Recorded: ")
    page.fill("#prompt textarea", STORY)
    page.wait_for_selector("#view .headline.before")  # whose prompt it is, is said in full
    assert EXAMPLES["Email"] in page.inner_text("#view .said")
    page.get_by_role("button", name="Draft tree, sampling and length").click()
    page.wait_for_selector("#auto_tree input:checked")
    assert page.locator("#depth input").first.is_disabled()


def test_the_whole_of_it_is_on_one_screen_and_one_plain_run_follows(page):
    page.evaluate(SHIFTS)
    run(page, STORY)
    assert state(page) == "done" and figure(page, "exact") == 1
    calls, plain = figure(page, "calls"), figure(page, "calls", PLAIN)
    assert f"model calls instead of {plain:.0f}. Same text." in headline(page)
    assert 1 < calls < plain == 60
    assert page.evaluate(KEPT) == page.evaluate(KEPT, PLAIN)
    assert page.locator("#view [data-figure=speedup]").count() == 0  # nothing was measured
    if BUSY in headline(page):
        assert page.locator("#view .lane [data-figure=rate]").count() == 0  # else one compares them
    else:
        ours, theirs = (figure(page, "rate", lane) for lane in (LANE, PLAIN))
        over = "faster" if ours > 1.15 * theirs else "slower" if ours < 0.87 * theirs else ""
        rates = f"{ours:.0f} against {theirs:.0f} tokens/s"
        either = f"{over}, {rates}" if over else f"{rates}, too close (within 15 %)"
        told = f"Same text. This run: {either}."
        assert headline(page).endswith(told)
    bars = page.inner_text(".cycle-panel .bars")
    assert ("Plain decoding: " in bars) == (BUSY not in headline(page)) and " ms, for " in bars
    tau = (60 - 1) / (calls - 1)
    costs = page.inner_text("#view .costs")
    takes = r"Fewer calls, but slower ones: after the prompt, \d+ ms for "
    each = r"; without guesses, \d+ ms for 1\."
    if "too close" not in headline(page):  # else it would claim more than that
        each = r", so \d+ ms a token; without guesses, \d+\."
    brings = f"{tau:.2f} tokens"
    busy = f"A call brings {brings}, not 1, but with its guesses takes longer than a plain one."
    assert costs == busy or re.fullmatch(rf"{takes}{brings}{each}", costs)
    right = page.locator(f"{TEXT} .accepted").count()
    known, wrong, own = map(int, page.locator(".legend b:visible").all_inner_texts())
    assert (known, own) == (right, 60 - right)
    lines = json.loads(page.evaluate("sessionStorage.getItem('moa-run')"))["lines"]["drafter"]
    trees = [line["tree"] for line in lines if line.get("tree")]
    assert wrong == sum(len(tree["texts"]) - 1 - len(tree["path"]) for tree in trees)
    assert "The text repeats itself" in page.inner_text("#view .said")  # as the tiny target's does
    assert " with the most right guesses. " in page.inner_text(f"{TREE} .caption")
    places = ("#prompt", "#run", "#stop", LANE, PLAIN, TREE, "#charts", "#cut", "#method", "#tli")
    assert page.evaluate(HIDDEN, [*places, "#view .headline"]) == []
    assert page.evaluate("window.shifted") < 0.05 and page.evaluate("window.scrollY") == 0
    for _ in every_look(page):
        assert can_be_read(
            page, f"{TEXT} .accepted .mark", f"{PLAIN} .mark", ".headline", ".headline b", ".said",
            ".caption", ".quiet-button:not([disabled])", ".cut-state", "#run", ".lane .state",
        )  # fmt: skip
        if page.viewport_size["width"] < 900:
            places = ("#view .headline", "#view .costs", ".legend", LANE, "#cut")  # in this order
            tops = [page.locator(place).bounding_box()["y"] for place in places]
            assert tops == sorted(tops) and tops[-1] < page.viewport_size["height"]
        keep_picture(page, "live")


def test_what_is_shown_says_when_it_is_of_other_settings(page):
    run(page, STORY)
    page.fill("#prompt textarea", "Something else.")
    page.wait_for_selector("#view .headline.before")
    assert headline(page) == "A new prompt: press Run."
    page.fill("#prompt textarea", STORY)
    page.wait_for_selector("#view .headline:not(.before)")
    settings(page, tokens=61)
    page.wait_for_selector("#view .headline:text-is('The settings have changed: press Run.')")
    settings(page, tokens=60)
    page.fill("#prompt textarea", "Something else.")
    page.reload()
    page.wait_for_selector("#view .headline.before")
    said = page.inner_text("#view .said")
    assert STORY.strip() in said and page.locator("#charts svg").count() == 2
    for refused, words in (("a" * 100_000, "100,000"), (" ", "prompt")):
        page.fill("#prompt textarea", refused)
        page.click("#run")
        wait_for_status(page, words)
        page.wait_for_selector(RUN)
        assert headline(page) == "Not run. This is the run before."
        page.fill("#prompt textarea", STORY)  # it is told until it is changed
        page.wait_for_function("!document.querySelector('#status .status-line').textContent")
    run(page, "one\x00two\x1b[31m\u202ethree \ud83e\udd8a")  # control characters do no harm
    assert status(page).strip() == ""


def test_cycles_are_stepped_through_by_buttons_and_keys_and_one_shown_slowly(page):
    whole = run(page, STORY)
    with slowed(page):
        press(page, "Replay")
        page.wait_for_selector(f"{TEXT} [data-token]")
        press(page, "Pause")
    back = page.get_by_role("button", name="Previous cycle")
    while back.is_enabled():
        back.click()
    assert page.locator(f"{TEXT} [data-token]").count() <= 1  # the first token, if it was due
    page.get_by_role("button", name="Next cycle").click()
    assert count(page).startswith("cycle 1 of ")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert count(page).startswith("cycle 2 of ")
    press(page, "Show this cycle slowly")
    assert page.locator(f"{TEXT} .unjudged").count() == 1
    page.wait_for_selector(f"{TREE}[data-phase=checked]")
    page.wait_for_selector(f"{TREE}[data-phase=kept]")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    page.wait_for_selector(f"{LANE}[data-state=done]")
    assert page.evaluate(KEPT) == whole
    page.locator(f"{TEXT} .cycle:nth-of-type(4) .token").first.hover()
    assert page.inner_text(f"{TREE} .caption").startswith("Cycle 3.")
    with slowed(page):
        press(page, "Replay")
        page.wait_for_selector(f"{TEXT} [data-token=accepted]")
        press(page, "Show this cycle slowly")  # the replay stands still meanwhile
        page.wait_for_selector(f"{LANE}[data-state=running] .unjudged")
    page.wait_for_selector(f"{LANE}[data-state=done]")  # and goes on


def test_who_waits_is_told_in_the_headline_and_nothing_moves(page, open_page):
    other = open_page(ADDRESS)
    settings(other, tokens=512, depth=12, breadth=16, budget=64)
    start(other)
    other.wait_for_selector(f"{TEXT} .first")
    page.bring_to_front()
    page.evaluate(SHIFTS)
    page.click(RUN)
    page.wait_for_selector("#view .headline:has-text('yours starts next')")
    other.evaluate("document.querySelector('#stop').click()")
    finish(page)
    assert page.evaluate("window.shifted") < 0.05


def test_the_likeliest_rejected_branch_is_struck_out(page):
    assert page.evaluate(STRUCK_OUT) == [[[2, 5], 1], [[3], 1], [[1, 2, 5], 0], []]


def test_a_word_opens_its_cycle_and_rejected_guesses_are_shown_by_choice(page):
    run(page, STORY)
    assert page.locator(f"{TEXT} .rejected:visible").count() == 0
    press(page, "Show rejected guesses")
    shown = page.locator(f"{TEXT} .token.rejected").count()
    told = re.findall(r"\d+", page.inner_text(".legend li:has(.rejected) b"))
    assert int(told[0]) == shown > 5 and int(told[-1]) >= shown
    page.locator(f"{TEXT} .rejected").first.hover()
    assert "rejected" in page.inner_text(f"{LANE} .tip")
    press(page, "Hide rejected guesses")
    page.locator(f"{TEXT} .cycle:nth-of-type(4) .token:not(.rejected)").last.click()
    page.mouse.move(2, 2)
    assert page.inner_text(f"{TREE} .caption").startswith("Cycle 3.")
    assert count(page).startswith("cycle 3 of ")
    open_tab(page, "Inside a cycle")
    page.wait_for_selector(".inside-view .count:has-text('Cycle 3 of')")
    page.go_back()
    page.wait_for_selector(f"{TEXT} .token", state="visible")


def test_stop_ends_the_text(page):
    settings(page, tokens=512, depth=12, breadth=16, budget=64)
    start(page)
    page.click("#stop:not([disabled])")
    page.wait_for_function(DONE)
    before = page.evaluate(KEPT)
    page.wait_for_timeout(300)
    assert page.evaluate(KEPT) == before and page.locator("#stop").is_disabled()
    settings(page, tokens=300, depth=3, breadth=3, budget=8)
    start(page)
    page.wait_for_function(IN_PLAIN)  # at once: it is soon over
    page.wait_for_function(DONE)
    assert "runs now" not in headline(page)
    settings(page, tokens=60)


def test_no_plain_run_follows_a_stop_that_came_too_late(open_page):
    page = open_page(ADDRESS, ready=RUN)
    page.locator(LANE).evaluate(UNHEARD)
    page.click("#run")
    page.wait_for_selector(f"{PLAIN} .state:has-text('Not run')")
    finish(page)
    assert page.inner_text(f"{PLAIN} .state") == "Not run: stopped."


def test_a_page_at_rest_draws_nothing(open_page):
    page = open_page(ADDRESS, ready=RUN)
    run(page)
    page.add_init_script(FRAMES)
    page.reload()
    page.wait_for_selector(f"{LANE}[data-state=done]")
    assert page.evaluate("asked")
    # gradio's loading screen comes to its end.
    assert any(page.evaluate(ASKED) < 5 for _ in range(10))


def test_a_browser_that_may_keep_nothing_runs_all_the_same(window, app):
    page = new_tab(window)
    page.add_init_script(FORBIDDEN)
    page.goto(app + ADDRESS)
    page.wait_for_selector(RUN)
    run(page, STORY)
    assert page.locator("#measure").is_visible()
    page.close()


def test_a_phone_shows_texts_from_their_start_and_says_what_can_be_scrolled(open_page):
    page = open_page(look=LOOKS[1])
    for lane in (LANE, PLAIN):
        page.wait_for_selector(f"{lane}[data-state=done]")
        page.wait_for_function(f"document.querySelector('{lane} .text').scrollTop === 0")
        assert page.locator(f"{lane} .text").evaluate(READ_FROM) == [True, 0]
    for place in ("#view .said", "#charts .about"):
        assert page.locator(place).evaluate(WHOLE), place
    for one in page.locator("#examples button, #enable-offline, #header .link").all():
        assert one.bounding_box()["height"] >= 24
    page.locator(TEXT).hover()
    page.locator(TEXT).evaluate("one => { one.scrollTop = one.scrollHeight; }")
    page.wait_for_function(f"document.querySelector('{PLAIN} .text').scrollTop > 0")  # together
    before = page.locator(TEXT).evaluate(IN_VIEW)
    run(page)
    assert page.locator(TEXT).evaluate(IN_VIEW) == before  # it keeps its place
    run(page, STORY)
    page.reload()
    page.wait_for_selector(f"{LANE}[data-state=done]")
    assert page.locator(TEXT).evaluate(READ_FROM) == [True, 0]
    settings(page, tokens=30, depth=2, breadth=1, budget=2)
    tree = page.locator(f"{TREE} .drawing")
    run(page, STORY)
    assert tree.evaluate(HINT) == [False, False]
    settings(page, depth=12, breadth=16, budget=64)
    run(page)
    assert tree.evaluate(HINT) == [True, True]


def test_who_reads_further_down_stays_there_when_a_run_ends(page):
    page.set_viewport_size({"width": 390, "height": 844})
    settings(page, tokens=400)
    page.fill("#prompt textarea", STORY)
    start(page)
    page.evaluate("scrollTo({ top: 500, behavior: 'instant' })")
    assert page.evaluate("document.activeElement.id") == "stop"
    finish(page)
    page.wait_for_function("document.activeElement.id === 'run'")
    assert page.evaluate("scrollY") >= 500  # with what came above
    page.set_viewport_size({"width": 1280, "height": 800})
