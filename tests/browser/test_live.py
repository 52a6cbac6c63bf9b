"""The stage, driven as a visitor would, by the hooks that it keeps for whoever automates it."""

import json
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import every_look, keep_picture
from tests.browser.driving import (
    FILES,
    KEPT,
    RUN,
    SHIFTS,
    TEXT,
    can_be_read,
    charts_are_named,
    figure,
    finish,
    run,
    saved,
    settings,
    start,
    wait_for_status,
)

pytestmark = pytest.mark.browser

ADDRESS, READY = "?pace=full&tokens=60", RUN
TREE = "[data-stage=tree]"
LINKED = "() => document.querySelector('#link textarea').value.startsWith('http')"
HOLDS = "([id, value]) => document.querySelector(`#${id} input[type=number]`)?.value === value"
INSIDE = """ids => ids.filter(id => {
  const { top, bottom, width } = document.querySelector(id).getBoundingClientRect();
  return top < 0 || bottom > window.innerHeight || !width;
})"""
# From now on every second message of each stream is overtaken by the next, its first excepted.
OVERTAKE = """() => {
  const plain = window.setTimeout;
  const streams = {};
  window.overtaken = 0;
  window.setTimeout = (call, wait, message, ...more) => {
    const generating = message?.msg === "process_generating";
    if (!generating && message?.msg !== "process_completed") {
      return plain(call, wait, message, ...more);
    }
    const stream = (streams[message.event_id] ??= { count: 0, held: null });
    if (generating && (stream.count += 1) > 1 && !stream.held) {
      stream.held = message;
      return 0;
    }
    const late = stream.held;
    stream.held = null;
    const order = generating ? [message, late] : [late, message];
    order.filter(Boolean).forEach((one) => plain(call, 0, one, ...more));
    window.overtaken += generating && late !== null;
    return 0;
  };
}"""
STOP_AT = """count => {
  const [stop, view] = ["#stop", "#view .token-view"].map(place => document.querySelector(place));
  const before = view.dataset.id;
  new MutationObserver((_, observer) => {
    if (view.dataset.id === before || stop.disabled) return;
    if (view.querySelectorAll(".cycle").length < count) return;
    observer.disconnect();
    stop.click();
  }).observe(document.body, { attributes: true, childList: true, subtree: true });
}"""
HOSTILE = "${6*7} <b>x</b> {{x}} `y` <script>alert(1)</script>"


def kinds(page):
    """How many tokens of each kind the text has."""
    found = page.locator(f"{TEXT} [data-token]").evaluate_all(
        "all => all.map(one => one.dataset.token)"
    )
    return {kind: found.count(kind) for kind in set(found)}


def count(page):
    return page.inner_text("#view .pacer .count")


def state(page):
    return page.get_attribute("#stage", "data-run")


def pace(page, milliseconds):
    page.locator("#view .pacer select").select_option(str(milliseconds))


def test_a_recorded_run_plays_until_something_is_pressed_and_in_class_has_few_controls(open_page):
    page = open_page()
    assert state(page) == "recorded" and page.locator(".badge").is_visible()
    page.wait_for_selector(f"{TREE} [data-node=accepted]")
    seen = count(page)
    page.wait_for_function(
        "old => document.querySelector('#view .count').textContent !== old", arg=seen
    )
    assert page.locator("#view [data-figure]").count() == 0  # no figures before the end
    page.mouse.click(2, 2)
    assert state(page) == "idle" and figure(page, "exact") == 1
    assert kinds(page)["rejected"] >= 20 and kinds(page)["bonus"] > 10
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{page.url}?class=1")
    page.wait_for_selector("#stage[data-run=recorded]")
    assert figure(page, "calls") > 10  # its last frame, at once
    page.wait_for_selector(RUN)
    for control in ("#prompt", "#method", "#tli", "#connection", "#settings", "[role=tab]"):
        assert not page.locator(control).first.is_visible(), control
    assert page.get_by_role("button", name="Previous cycle").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_whole_of_it_is_on_one_screen(page):
    page.evaluate(SHIFTS)
    run(page)
    assert state(page) == "done" and page.locator("#stage").count() == 1
    assert figure(page, "exact") == 1 and figure(page, "speedup") > 0
    assert figure(page, "calls") < 60 and figure(page, "tau") > 1
    page.wait_for_selector("#chart-latency .main-svg")
    assert {"accepted", "rejected", "bonus"} <= set(kinds(page))
    for kind in ("rejected", "bonus"):
        assert page.locator(f"{TREE} [data-node={kind}]").count()
    places = ("#prompt", "#run", "#stop", "#method", "#tli", "#connection", TREE)
    charts = ("#chart-acceptance", "#chart-latency", "#view .headline")
    assert page.evaluate(INSIDE, [*places, *charts]) == [] and charts_are_named(page)
    assert page.evaluate("window.shifted") < 0.1 and page.evaluate("window.scrollY") == 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("window.shifted = 0")
    run(page)
    page.wait_for_selector("#chart-latency .main-svg")
    assert page.evaluate("window.shifted") < 0.1 and page.evaluate("window.scrollY") == 0
    for _ in every_look(page):
        marks = (f"{TEXT} .{kind} .mark" for kind in ("accepted", "rejected", "bonus", "first"))
        assert can_be_read(
            page, *marks, f"{TEXT} .more", ".headline", ".headline b", ".said", ".caption",
            ".quiet-button:not([disabled])", "#machine .status-line", "#run", ".unfold",
        )  # fmt: skip
        keep_picture(page, "live")


def test_cycles_are_stepped_through_by_buttons_and_keys(page):
    pace(page, 1200)
    start(page)
    page.get_by_role("button", name="Pause").click()
    page.wait_for_selector(RUN)
    back = page.get_by_role("button", name="Previous cycle")
    while back.is_enabled():
        back.click()
    assert page.locator(f"{TEXT} [data-token]").count() == 1  # the first token; the run is over
    page.get_by_role("button", name="Next cycle").click()
    assert count(page).startswith("cycle 1 of ") and page.locator(f"{TEXT} .unjudged").count() == 1
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert count(page).startswith("cycle 2 of ")
    page.keyboard.press("ArrowLeft")
    assert count(page).startswith("cycle 1 of ")
    assert page.locator("#view [data-figure]").count() == 0
    page.keyboard.press("Space")
    page.get_by_role("button", name="Pause").wait_for()
    pace(page, 0)  # as decoded
    finish(page)
    whole = page.evaluate(KEPT)
    assert figure(page, "calls") > 1
    page.get_by_role("button", name="Replay").click()
    pace(page, 0)
    finish(page)
    assert page.evaluate(KEPT) == whole


def test_a_word_opens_its_cycle_and_the_plus_its_rest(page):
    run(page, "Tell me a story.")
    more = page.locator(f"{TEXT} .more").first
    more.click()
    tip = page.locator("#view .tip")
    assert "Also rejected in cycle" in tip.inner_text()
    page.mouse.move(2, 2)
    assert tip.is_visible()  # until the next press
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    word = page.locator(f"{TEXT} .cycle:nth-of-type(4) .token").last
    word.focus()
    cycle = tip.inner_text().split("cycle")[1].split()[0]
    word.click()
    page.wait_for_selector(f".inside-view .count:has-text('Cycle {cycle} of')")
    page.go_back()
    page.wait_for_selector(f"{TEXT} .token", state="visible")


def test_without_its_target_the_drafter_goes_on_and_is_healed(page):
    whole = run(page, "Tell me a story.").replace("↵", "")
    page.wait_for_selector(".drafter-state:has-text(' MB, downloaded once')")
    keep_picture(page, "live-asked")
    page.click(".drafter-state button")
    page.wait_for_selector(".drafter-state[data-state=ready]")
    keep_picture(page, "live-ready")
    page.locator("#connection input").uncheck()
    start(page)
    page.wait_for_selector("#view .headline:has-text('the drafter continues alone')")
    page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth=10")
    keep_picture(page, "live-cut")
    assert "drafted in this browser" in page.inner_text("#view .said")
    page.locator("#connection input").check()
    finish(page)
    assert "The link is back" in page.inner_text("#view .said")
    assert page.evaluate(KEPT).replace("↵", "") == whole and figure(page, "exact") == 1
    keep_picture(page, "live-healed")
    page.locator(f"{TEXT} .cycle:nth-of-type(4) .token").last.click()  # its trace is here, too
    page.wait_for_selector(".inside-view .count:has-text('Cycle 3 of')")
    page.go_back()
    pace(page, 300)
    start(page)
    page.locator("#connection input").uncheck()  # in the middle of a run
    page.wait_for_selector(f"{TEXT} [data-token=offline]")
    page.locator("#connection input").check()
    pace(page, 0)
    finish(page)
    assert page.evaluate(KEPT).replace("↵", "") == whole
    page.locator("#connection input").uncheck()
    start(page)
    page.wait_for_selector(f"{TEXT} [data-token=offline]")
    page.click("#stop")
    finish(page)
    assert state(page) == "stopped" and kinds(page)["offline"] > 0
    page.locator("#connection input").check()


def test_cut_before_the_drafter_is_here_the_run_goes_on_on_the_server(page):
    whole = run(page, "Tell me a story.").replace("↵", "")
    page.wait_for_selector(".drafter-state[data-state='not loaded']")
    page.locator("#connection input").uncheck()
    page.wait_for_selector(".drafter-state:has-text('the server cuts its link instead')")
    start(page)
    page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth=3")
    assert "in this browser" not in page.inner_text("#view .said")
    page.locator("#connection input").check()
    finish(page)
    assert page.evaluate(KEPT).replace("↵", "") == whole


def test_hostile_text_stays_text_and_a_prompt_that_cannot_be_read_gets_a_sentence(page):
    before = run(page, HOSTILE)
    assert page.locator(f"{TEXT} b").count() == 0
    for text in ("${6*7}", "<b>x</b>", "{{x}}", "`y`", "<script>"):
        assert text in before
    page.wait_for_selector("#chart-latency .main-svg")
    page.fill("#prompt textarea", "a" * 100_000)
    page.click("#run")
    wait_for_status(page, "100,000")
    page.wait_for_selector(RUN)
    page.wait_for_timeout(500)  # a refused run leaves the charts as they are
    assert page.locator("#charts .main-svg").count() >= 2
    assert page.evaluate(KEPT) == before
    run(page, "one\x00two\x1b[31m\u202ethree \ud83e\udd8a")  # control characters do no harm


def test_a_trace_and_a_link_bring_a_run_to_another_visitor(page, open_page, tmp_path):
    page.fill("#prompt textarea", "A fox & a hen? 100 % ${6*7} <b>é</b>")
    settings(page, tokens=33, depth=2, seed=7)
    written, path = run(page), tmp_path / "trace.json"
    assert json.loads(saved(page, path))["about"]["method"] == "moa-n0"
    page.click("#share")
    page.wait_for_function(LINKED)
    link = urlsplit(page.locator("#link textarea").input_value())
    other = open_page(f"?{link.query}&pace=full", ready=RUN)
    other.get_by_role("button", name="Draft tree, sampling and length").click()
    for name, value in {"tokens": "33", "depth": "2", "seed": "7"}.items():
        other.wait_for_function(HOLDS, arg=[name, value])
    assert run(other) == written
    other.get_by_role("button", name=FILES).click()
    other.set_input_files("#open input[type=file]", path)
    wait_for_status(other, "Opened: MoA N=0 for tiny")
    finish(other)
    assert other.evaluate(KEPT) == written and figure(other, "calls") == figure(page, "calls")
    path.write_text("{}")
    other.set_input_files("#open input[type=file]", path)
    wait_for_status(other, "not a trace of this program")


def test_methods_are_a_switch_and_an_n_without_a_drafter_says_so(page):
    drafted = run(page, "Tell me a story.")
    assert page.get_by_label("N-gram").count() == 0 or not page.get_by_label("N-gram").is_visible()
    page.get_by_role("button", name="more methods").click()
    page.get_by_label("Plain", exact=True).check()
    page.wait_for_selector("#tli-stops :text('Plain has no TLI')")
    assert run(page) == drafted and figure(page, "tau") == 1
    assert "rejected" not in kinds(page)
    page.get_by_label("MoA", exact=True).check()
    page.wait_for_selector("#tli input[type=range]:not([disabled])")
    slider = page.get_by_role("slider", name="TLI")
    slider.focus()
    slider.press("End")
    page.wait_for_selector("#tli-stops .refusal")
    page.click("#run")
    wait_for_status(page, "No MoA drafter is trained for TLI N = 3")
    slider.press("Home")


def test_stop_ends_the_run_and_keeps_what_was_done(page):
    settings(page, depth=12, breadth=16, budget=64, tokens=512)
    page.evaluate(STOP_AT, 8)  # within the page: the run may be over before a test can look
    start(page)
    finish(page)
    assert state(page) == "stopped" and figure(page, "calls") >= 8
    assert page.locator("#view [data-figure=exact]").count() == 0


def test_messages_of_a_stream_that_overtake_each_other_do_not_change_the_text(page):
    settings(page, tokens=200)
    wrote = run(page, "Tell me about a frog.")
    page.evaluate(OVERTAKE)
    assert run(page, "Tell me about a frog.") == wrote
    assert page.evaluate("window.overtaken") > 0
    assert page.locator(".token-view .cycle").count() > 3
