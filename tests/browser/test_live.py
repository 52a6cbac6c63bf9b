"""The stage, driven as a visitor would, by the hooks that it keeps for whoever automates it."""

import json
from urllib.parse import urlsplit

import pytest

from demo.common.controls import EXAMPLES
from demo.lesson.text import STEPS
from tests.browser.conftest import LOOKS, every_look, keep_picture, new_tab
from tests.browser.driving import (
    DONE,
    FILES,
    KEPT,
    LANE,
    RUN,
    SHIFTS,
    TEXT,
    can_be_read,
    figure,
    finish,
    headline,
    open_tab,
    press,
    reload_changed,
    run,
    saved,
    settings,
    slowed,
    start,
    status,
    wait_for_status,
)

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tokens=60&depth=5&breadth=4&budget=11", RUN
PLAIN = "#view .lane[data-lane=plain]"
TREE = "[data-stage=tree]"
STORY = "Tell me a story."
LINKED = "() => document.querySelector('#link textarea').value.startsWith('http')"
HOLDS = "([id, value]) => document.querySelector(`#${id} input[type=number]`)?.value === value"
INSIDE = """ids => ids.filter(id => {
  const { top, bottom, width } = document.querySelector(id).getBoundingClientRect();
  return top < 0 || bottom > window.innerHeight || !width;
})"""
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
# The height of the row of keys, as it is once a cut was healed.
HEALED = """() => {
  const keys = [...document.querySelectorAll('.legend li:has(b)')];
  for (const [at, count] of ['67', '61', '', '4', '16'].entries()) {
    keys[at].hidden = false;
    keys[at].lastChild.textContent = count;
  }
  return document.querySelector('.pacer').offsetHeight;
}"""
SHOWN_AGAIN = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"
IN_VIEW = """one => one.getBoundingClientRect().top
  - document.querySelector('#view').getBoundingClientRect().top"""
ADDED = "one => getComputedStyle(one, '::after').content"
LETTERS = """all => all.map(
  (one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"""
SIZE = "one => parseFloat(getComputedStyle(one).fontSize)"


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
    ours, theirs = (figure(page, "rate", lane) for lane in (LANE, PLAIN))
    over = "slower" if ours < 0.9 * theirs else "faster" if ours > 1.1 * theirs else "about as fast"
    told = f"Same text. This run: {over}, {ours:.0f} against {theirs:.0f} tokens/s."
    assert headline(page).endswith(told)
    assert page.inner_text(".cycle-panel .bars").count(" ms") >= 3
    tau = (60 - 1) / (calls - 1)
    costs = page.inner_text("#view .costs")
    assert costs.startswith(f"Each call brings {tau:.2f} tokens but takes ") and costs[-2:] == "×."
    right = page.locator(f"{TEXT} .accepted").count()
    assert page.locator(".legend b:visible").all_inner_texts() == [str(right), str(60 - right)]
    assert "The text repeats itself" in page.inner_text("#view .said")  # as the tiny target's does
    assert page.inner_text(f"{TREE} .caption").startswith("Most right guesses: cycle ")
    places = ("#prompt", "#run", "#stop", LANE, PLAIN, TREE, "#charts", "#cut", "#method", "#tli")
    assert page.evaluate(INSIDE, [*places, "#view .headline"]) == []
    assert page.evaluate("window.shifted") < 0.05 and page.evaluate("window.scrollY") == 0
    for _ in every_look(page):
        assert can_be_read(
            page, f"{TEXT} .accepted .mark", f"{PLAIN} .mark", ".headline", ".headline b", ".said",
            ".caption", ".quiet-button:not([disabled])", ".cut-state", "#run", ".lane .state",
        )  # fmt: skip
        if page.viewport_size["width"] < 900:
            places = ("#cut", "#view .headline", "#view .costs", LANE, ".legend")  # in this order
            tops = [page.locator(place).bounding_box()["y"] for place in places]
            assert tops == sorted(tops) and tops[-1] < page.viewport_size["height"]
        keep_picture(page, "live")


def test_what_is_shown_says_when_it_is_of_other_settings(page):
    run(page, STORY)
    page.fill("#prompt textarea", "Something else.")
    page.wait_for_selector("#view .headline.before")
    assert "The settings have changed" in page.inner_text("#view .said")
    page.fill("#prompt textarea", STORY)
    page.wait_for_selector("#view .headline:not(.before)")
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
        assert "Not run. This is the run before." in page.inner_text("#view .said")
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


def test_a_word_opens_its_cycle_and_rejected_guesses_are_shown_by_choice(page):
    run(page, STORY)
    assert page.locator(f"{TEXT} .rejected:visible").count() == 0
    press(page, "Show rejected guesses")
    assert page.locator(f"{TEXT} .rejected:visible").count() > 5
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


def test_speed_is_measured_when_it_is_asked_for_and_can_be_cancelled(page):
    run(page, STORY)
    page.click("#measure")
    page.wait_for_selector(".actions:has-text('Measuring speed: ')")
    page.click("#measure-cancel")
    page.wait_for_selector("#measure")
    page.click("#measure")
    page.wait_for_selector("#charts .about:has-text('Measured')")
    words = headline(page)
    told = page.locator("#view [data-figure=speedup]").count()
    assert told != any(part in words for part in ("too close to call", "from run to run"))
    added = page.locator(f"{LANE} .state").evaluate(ADDED)
    assert added == '" (1 run)"'  # its speed is not the headline's
    for name in ("acceptance", "latency"):
        label = page.locator(f"#chart-{name} svg").get_attribute("aria-label")
        assert "MoA N=0" in label and "EAGLE-2" in label and "Plain" in label


def test_a_run_ends_a_measurement_without_a_word_of_it(page):
    run(page, STORY)
    page.click("#measure")
    page.wait_for_selector(".actions:has-text('Measuring speed: ')")
    run(page)
    assert status(page) == "" and page.locator("#measure").is_visible()


def test_a_measurement_that_fails_can_be_asked_for_again(page):
    run(page, STORY)
    reload_changed(page, lambda kept: kept["settings"].update(tokens=1000))
    page.click("#measure")
    wait_for_status(page, "A run has at most 512 new tokens.")
    assert page.locator("#measure").is_visible()


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (0.8, "Same text, slower: 0.80× the speed (3 runs)."),
        (1.5, "Same text, 1.5× as fast (3 runs)."),
        ("slower", "Same text, slower here: by how much changes from run to run."),
        (None, "tokens/s, too close to call."),
    ],
)
def test_slower_is_said_as_plainly_as_faster(page, over, words):
    run(page, STORY)
    measured = {"lanes": [], "about": "", "runs": 3, "over": {"vanilla": over}}
    reload_changed(page, lambda kept: kept.update(measured=measured))
    assert headline(page).endswith(words)


def test_calls_that_take_no_longer_are_told_too(page):
    def equal(kept):
        for line in (*kept["lines"]["drafter"], *kept["lines"]["plain"]):
            if "ms" in line:
                line["ms"] = [0, 5, 0]

    run(page, STORY)
    reload_changed(page, equal)
    page.wait_for_selector("#view .costs:has-text('takes about as long as a call of plain')")


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


def test_the_slider_ends_at_the_largest_trained_n(page):
    slider = page.get_by_role("slider", name="Borrow")
    slider.focus()
    slider.press("End")
    page.wait_for_selector("#tli-stops .about:has-text('the target’s last layer')")
    assert slider.input_value() == "1"
    slider.press("Home")
    page.wait_for_selector("#tli-stops .about:has-text('N = 0')")


def test_a_trace_and_a_link_bring_a_run_to_another_visitor(page, open_page, tmp_path):
    page.fill("#prompt textarea", "A fox & a hen? 100 % ${6*7} <b>é</b>")
    settings(page, tokens=33, depth=2, seed=7)
    written, path = run(page), tmp_path / "trace.json"
    assert json.loads(saved(page, path))["about"]["method"] == "moa-n0"
    page.click("#share")
    page.wait_for_function(LINKED)
    link = urlsplit(page.locator("#link textarea").input_value())
    other = open_page(f"?{link.query}", ready=RUN)
    other.get_by_role("button", name="Draft tree, sampling and length").click()
    for name, value in {"tokens": "33", "depth": "2", "seed": "7"}.items():
        other.wait_for_function(HOLDS, arg=[name, value])
    assert run(other) == written
    other.get_by_role("button", name=FILES).click()
    other.set_input_files("#open", path)
    wait_for_status(other, "Opened: MoA N=0 for tiny")
    other.wait_for_function(DONE)
    assert other.evaluate(KEPT) == written and figure(other, "calls") == figure(page, "calls")


def test_a_file_that_is_no_trace_ends_a_run_and_takes_nothing_away(open_page, tmp_path):
    page, path = open_page(ADDRESS, ready=RUN), tmp_path / "trace.json"
    path.write_text("{}")
    run(page)
    assert saved(page, tmp_path / "kept.json")  # which opens the box of files
    page.set_input_files("#open", path)
    wait_for_status(page, "not a trace of this program")
    with page.expect_download():
        page.click("#save")
    settings(page, tokens=512, depth=12, breadth=16, budget=64)
    start(page)
    page.set_input_files("#open", path)
    wait_for_status(page, "not a trace of this program")
    finish(page)
    assert state(page) == "stopped"


def test_in_class_there_is_what_a_lesson_needs(open_page):
    page = open_page("?class=1")
    for place in ("#prompt textarea", "#run", "#stop", "#cut", TREE, LANE, PLAIN):
        assert page.locator(place).first.is_visible(), place
    for place in ("#method", "#tli", "[role=tab]"):
        assert not page.locator(place).first.is_visible(), place
    steps = page.locator(".class-steps > div")
    assert steps.inner_text().startswith("1 of 8, Drafting.")
    page.wait_for_selector(f"{TREE}[data-phase=drafted]")  # the tree answers the question
    assert "accepted" not in page.inner_text(f"{TREE} .caption")
    press(page, "Show answer")
    assert STEPS[0].question in steps.inner_text() and STEPS[0].answer in steps.inner_text()
    page.wait_for_selector(f"{TREE}[data-phase=kept]")
    press(page, "Hide answer")
    page.wait_for_selector(f"{TREE}[data-phase=drafted]")
    press(page, "Show this cycle slowly")
    page.wait_for_selector(f"{TREE}[data-phase=kept]")
    for step in STEPS[1:]:  # as a clicker does
        page.keyboard.press("PageDown")
        assert step.question in steps.inner_text()
        assert page.locator(PLAIN).is_visible() != page.locator(".class-picture svg").is_visible()
        assert page.locator("#tli").is_visible() == (step.id == "tli")  # it asks for an N
        # The result, which the first steps do not give away; two others are about a picture alone.
        told = step.id in ("lossless", "tli", "alone")
        assert page.locator("#view .headline").is_visible() == told
        assert page.locator(f"{LANE} .state").is_visible() == told
        if page.locator(".class-picture svg").is_visible():
            letters = page.locator(".class-picture text").evaluate_all(LETTERS)
            assert min(letters) > page.locator(".class-steps small").evaluate(SIZE)
        if step.id == "tli":
            for end in ("Home", "End"):  # N = 0 and N = 1
                page.press("#tli input[type=range]", end)
                run(page)
            rows = page.locator(".runs p").all_inner_texts()
            assert [row.split(":")[0] for row in rows] == ["MoA N=0", "MoA N=1", "Plain decoding"]
    press(page, "Next step")
    words = [headline(page).removeprefix("Recorded: "), page.inner_text("#view .costs")]
    wrong, saved, costs = page.locator(".class-picture li").all_inner_texts()
    right = page.locator(f"{TEXT} .accepted").count()
    assert f"accepted {right} of " in wrong and words[0].startswith(saved[:-1])
    assert costs == words[1] and page.get_by_role("button", name="Next step").is_disabled()
    press(page, "Back")
    page.keyboard.press("PageUp")
    assert page.locator(".class-picture svg").is_visible()
    page.evaluate(SHOWN_AGAIN)  # as Back does where the browser has kept the page
    assert steps.inner_text().startswith("1 of 8")
    press(page, "Next step")
    assert page.evaluate(INSIDE, ["#run", LANE, PLAIN, TREE, "#cut"]) == []
    sizes = [page.locator(place).evaluate(SIZE) for place in (".class-steps p", TEXT)]
    assert sizes[0] == sizes[1] > 20
    tree, wide = (page.locator(place).bounding_box() for place in (TREE, "#view"))
    assert tree["height"] > 0.45 * wide["height"]
    keep_picture(page, "class")
    assert page.evaluate(HEALED) < 60  # one row
    page.set_viewport_size({"width": 390, "height": 844})
    leave = page.get_by_role("link", name="Exit class mode")
    slowly = "[aria-label='Show this cycle slowly']"  # what step 1 asks to press
    assert page.evaluate(INSIDE, [".class-steps a", "#cut", slowly, f"{TREE} .node"]) == []
    assert leave.bounding_box()["x"] + leave.bounding_box()["width"] <= 390
    leave.click()
    page.wait_for_selector("#tli-stops:has-text('N = 1')")  # that of the run, which is there
    page.wait_for_selector(f"{LANE}[data-state=done]")
    page.wait_for_selector("#view .headline:not(.before)")  # the settings have not changed
    run(page, STORY)
    page.get_by_role("link", name="Class mode").click()  # a lesson opens with the recording
    page.wait_for_selector(
        f"#stage[data-run=recorded] {PLAIN.removeprefix('#view ')}[data-state=done]"
    )
