"""The stage, when its connection is cut, its network lost, its page left."""

import re

from tests.browser.conftest import keep_picture, new_tab, running_app, without_network
from tests.browser.driving import (
    KEPT,
    LANE,
    RUN,
    SMALL_RUN,
    STORY,
    STRUCK,
    TEXT,
    choose,
    figure,
    finish,
    headline,
    open_tab,
    press,
    reload_changed,
    run,
    settings,
    start,
    wait_for_status,
)

ADDRESS, READY = SMALL_RUN, RUN
# Whether the link still waits for a silent server after the browser said that it is online.
WAITS = """async () => {
  const { Link } = await import("/demo/live/link.js");
  const [set, clear, waits] = [window.setTimeout, window.clearTimeout, new Set()];
  window.WebSocket = class { close() {} };
  window.setTimeout = (act, ms) => {
    const id = set(act, ms);
    if (ms === 4000) waits.add(id);
    return id;
  };
  window.clearTimeout = (id) => waits.delete(id) && clear(id);
  new Link(() => {}, () => {});
  window.dispatchEvent(new Event("online"));
  return waits.size;
}"""
# What a page may say, and is told, before its first connection and after its first loss.
FIRST = """async () => {
  const { Link } = await import("/demo/live/link.js");
  const [sent, turns] = [[], []];
  let made = null;
  window.WebSocket = class extends EventTarget {
    static CONNECTING = 0;
    readyState = 0;
    constructor() {
      super();
      made = this;
    }
    send(text) { sent.push(text); }
    close() {}
  };
  const link = new Link(() => {}, (up) => turns.push(up));
  const said = [link.say({ do: "run" }), sent.length];
  made.readyState = 1;
  made.onopen();
  made.dispatchEvent(new Event("open"));
  made.onclose();
  return [said, sent, turns, link.say({ do: "stop" }), sent.length];
}"""
IN_PLAIN = f"() => document.querySelector('{LANE} ~ .lane').dataset.state === 'running'"
TOPS = """() => ['.lanes', '.pacer', '.below', '#connection', '#how'].map(
  (place) => Math.round(document.querySelector(`#stage ${place}`).getBoundingClientRect().top))"""


def test_what_was_typed_and_read_outlives_a_loss_at_ten_places(open_page):
    page = open_page(ADDRESS, ready=READY)  # its own: no later test finds a cut that it left

    def is_kept():
        assert page.inner_text(TEXT).startswith(seen)
        assert page.input_value("#prompt textarea") == STORY

    settings(page, tokens=60)
    page.fill("#prompt textarea", STORY)
    for loss in ("reload", "network"):
        for place in (0, 3, 7, 12, 20):
            press(page, "✂ Cut the connection")
            start(page)
            page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth={place}")
            seen = page.inner_text(TEXT)
            if loss == "reload":
                page.reload()
                page.wait_for_selector(f"{LANE}[data-state=done]")
                is_kept()
            else:
                with without_network(page):
                    page.wait_for_selector(".cut-state:has-text('cannot be reached')", timeout=5000)
                    is_kept()
            page.wait_for_selector(".cut-state:has-text('checked later')")


def test_a_server_that_ends_is_told_and_the_text_is_kept(bundle, window, tmp_path):
    page = new_tab(window)
    with running_app(bundle, tmp_path / "log.txt") as url:
        page.goto(url + ADDRESS)
        page.wait_for_selector("#machine .status-line:has-text('Target tiny')")
        page.fill("#prompt textarea", STORY)
        press(page, "✂ Cut the connection")  # it writes on slowly, until the server is gone
        start(page)
        page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth=5")
        seen = page.inner_text(TEXT)
    page.wait_for_selector(".cut-state:has-text('cannot be reached')", timeout=5000)
    page.wait_for_selector(f"{LANE}[data-state=done]")
    assert page.inner_text(TEXT).startswith(seen)
    page.click(RUN)
    wait_for_status(page, "nothing was run")
    assert page.input_value("#prompt textarea") == STORY and page.inner_text(TEXT).startswith(seen)
    page.close()


def test_a_cut_takes_effect_at_once_and_the_text_is_healed(page):
    settings(page, tokens=40)
    page.click("#settings > button")  # folded: all has its own place then
    page.fill("#prompt textarea", STORY)
    press(page, "✂ Cut the connection")
    assert "about 12 tokens into the next run" in page.inner_text(".cut-state")
    start(page)
    page.wait_for_selector(f"{TEXT} .first")
    tops = page.evaluate(TOPS)
    page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth=5")
    assert "writes on alone" in headline(page) and page.evaluate(TOPS) == tops  # nothing moves
    assert int(page.inner_text(".legend li:has(.offline) b")) > 5
    keep_picture(page, "live-cut")
    page.wait_for_selector("#view .headline:has-text('has reached the run’s length')")
    page.wait_for_selector(".cut-state:has-text('Restore it within 29 s, else')")
    press(page, "Restore the connection")
    finish(page)
    said = page.inner_text("#view .costs")
    assert page.evaluate(TOPS) == tops
    assert re.search("tokens? written alone, the target kept", said) and figure(page, "exact") == 1
    whole, busy = headline(page), "this machine was too busy to tell."
    assert whole.endswith((" while connected.", " while connected, too close (within 15 %).", busy))
    assert ("Fewer calls, but slower ones: " in said) == (not whole.endswith(busy))
    known = page.locator(".legend .confirmed").is_visible()
    assert known == bool(page.locator(f"{TEXT} .confirmed").count())
    assert page.locator(".legend .changed").is_visible() and page.evaluate(STRUCK, LANE)
    settings(page, tokens=60)


def test_a_cut_is_arranged_for_the_next_run_that_can_have_one(page):
    settings(page, tokens=512)
    start(page)
    page.wait_for_function(IN_PLAIN)
    press(page, "✂ Cut the connection")
    finish(page)
    assert "about 12 tokens into the next run" in page.inner_text(".cut-state")
    choose(page, "Plain")
    page.wait_for_selector("#cut:disabled:has-text('Cut the connection')")
    choose(page, "MoA")
    page.wait_for_selector(".cut-state:has-text('checked later')")
    settings(page, tokens=60)


def test_a_server_that_falls_silent_is_noticed_after_the_network_came_back(open_page):
    assert open_page(ADDRESS).evaluate(WAITS) == 1


def test_what_is_said_before_the_first_connection_is_sent_with_it(open_page):
    told = open_page(ADDRESS).evaluate(FIRST)
    assert told == [[True, 0], ['{"do":"run"}'], [True, False], False, 1]


def test_a_cut_before_the_first_token_is_told(page, open_page):
    other = open_page(ADDRESS, ready=RUN)  # its run has the turn until its connection is back
    press(other, "✂ Cut the connection")
    other.click(RUN)
    other.wait_for_selector(f"{TEXT} [data-token=offline]")
    page.bring_to_front()
    page.click(RUN)
    for name, told in (
        ("✂ Cut the connection", "the drafter has nothing to go on."),
        ("Restore the connection", "Waiting for the first token."),
    ):
        press(page, name)
        page.wait_for_selector(f"#view .headline:has-text('{told}')")
    press(other, "Restore the connection")
    finish(page)


def test_a_run_that_ended_without_its_connection_says_so(page):
    def give_up(kept):
        lines = kept["lines"]["drafter"][:5]
        alone = {"offline": [" x", 0.5, None, 0], "at": 99, "s": lines[-1]["s"]}
        kept["lines"] = {"drafter": [*lines, {"down": 0}, alone, {"end": "offline"}]}

    run(page, STORY)
    reload_changed(page, give_up)
    said = "did not come back in time, so the run ended. Unchecked: 1 token, written alone."
    assert said in headline(page)


def test_the_drafter_moves_into_this_browser_when_it_is_asked_for(open_page):
    page = open_page(ADDRESS, ready=RUN)
    whole = run(page, STORY).replace("↵", "")
    page.evaluate("caches.delete('moa-drafters')")  # which another tab's test may have filled
    with without_network(page):
        page.click("#enable-offline")
        page.wait_for_selector(".cut-here:has-text('The server cannot be reached.')")
    page.click("#enable-offline:has-text('Try again')")
    page.click("#enable-offline:has-text('Download')")
    page.wait_for_selector(".cut-here:has-text('ready in this browser')")
    keep_picture(page, "live-ready")
    held = []
    page.route("**/device/ids", lambda route: held.append(route))
    with page.expect_request("**/device/ids"):
        page.click("#run")
    page.click("#stop:not([disabled])")
    page.wait_for_selector("#stop[disabled]")
    with page.expect_response("**/device/ids"):
        held[0].continue_()
    page.unroute("**/device/ids")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert page.get_attribute(LANE, "data-state") == "empty"  # what was stopped does not begin
    settings(page, tokens=60)  # which opens them
    page.locator("#auto_tree input").check()  # here, that is the drafter's own shape
    press(page, "✂ Cut the connection")
    start(page)
    page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth=5")
    assert "drafted in this browser" in page.inner_text(f"{LANE} .badge")
    assert "tree 3-3-8" in page.inner_text("#view .said")
    press(page, "Restore the connection")
    finish(page)
    assert page.evaluate(KEPT).replace("↵", "") == whole and figure(page, "exact") == 1
    page.locator(f"{TEXT} .cycle:nth-of-type(4) .token").last.click()
    open_tab(page, "Inside a cycle")  # its trace is here, too
    page.wait_for_selector(".inside-view .count:has-text('Cycle 3 of')")
    page.go_back()
    page.reload()
    page.click("#enable-offline:has-text('Run the drafter in this browser')")
    page.wait_for_selector(".cut-here:has-text('ready in this browser')")
