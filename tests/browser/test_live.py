"""The Live tab, driven as a visitor would."""

import pytest

from tests.browser.conftest import LOOKS
from tests.browser.driving import (
    KEPT,
    NEW_RUN,
    TEXT,
    chart,
    finish,
    raw_prompt,
    run,
    settings,
    start,
    status,
    tile,
    type_prompt,
    wait_for_status,
)

pytestmark = pytest.mark.browser

PLACES = """() => {
  const seen = id => {
    const { top, bottom } = document.querySelector(id).getBoundingClientRect();
    return top >= 0 && bottom <= window.innerHeight;
  };
  return {
    top: document.querySelector('#view').getBoundingClientRect().top, run: seen('#run'),
    legend: seen('.token-view .legend'), first: seen('.token-view .token.first'),
    scrolled: document.querySelector('.token-view .text').scrollTop,
    focus: document.activeElement.closest('#prompt') !== null,
  };
}"""
# From now on every second message of a stream is overtaken by the next, the first excepted.
OVERTAKE = """() => {
  const plain = window.setTimeout;
  let held = null;
  let count = 0;
  window.overtaken = 0;
  window.setTimeout = (call, wait, message, ...more) => {
    const streamed = message?.msg === "process_generating" || message?.msg === "process_completed";
    if (!streamed) return plain(call, wait, message, ...more);
    if (message.msg === "process_generating" && (count += 1) > 1 && !held) {
      held = message;
      return 0;
    }
    const late = held;
    held = null;
    if (message.msg === "process_completed" && late) plain(call, 0, late);
    plain(call, 0, message, ...more);
    if (message.msg === "process_generating" && late) plain(call, 0, late);
    window.overtaken += message.msg === "process_generating" && late !== null;
    return 0;
  };
}"""
HOSTILE = "${6*7} <b>x</b> {{x}} `y` <script>alert(1)</script>"


def test_a_run_shows_every_kind_of_token_and_its_figures_and_can_be_copied(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    written = run(page, "Tell me a story.")
    for kind in ("accepted", "rejected", "bonus", "first"):
        assert page.locator(f"{TEXT} .token.{kind}").count() > 0, kind
    assert page.locator(f"{TEXT} .more").count() > 0
    assert "river.\n" in written
    cycles = page.locator(f"{TEXT} .cycle").count()
    assert tile(page, "Target calls") == str(cycles)
    assert float(tile(page, "Acceptance length τ")) > 1
    assert tile(page, "Ended by") == "length"
    assert page.inner_text(".token-view .tiles").count("bonus included") == 1
    assert status(page).startswith("128 tokens in ")
    assert f"each cycle: {cycles - 1} cycles, from " in chart(page, "chart-lengths")["words"]
    raw = raw_prompt(page, "Tell me a story.")
    assert raw == "<|bos|><|user|>Tell me a story.<|end|><|assistant|>"
    page.get_by_role("button", name="Copy text").click()
    page.wait_for_selector("button:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == written


@pytest.mark.parametrize("look", [LOOKS[0], LOOKS[-1]], ids=str)
def test_a_run_is_brought_into_sight_and_read_from_its_beginning(open_page, look):
    page = open_page("?tokens=300", look, "#run:not([disabled])")
    page.emulate_media(reduced_motion="reduce")
    page.focus("#prompt textarea")
    before = page.locator(".token-view").get_attribute("data-run")
    page.keyboard.press("Shift+Enter")
    page.wait_for_function(NEW_RUN, arg=before)
    page.wait_for_selector(f"{TEXT} .cycle:nth-of-type(9)")
    places = page.evaluate(PLACES)
    assert places["legend"] and places["top"] < 0.25 * look[1] and places["focus"]
    assert places["run"] == (look == LOOKS[0])  # on a phone the choices stand in between
    finish(page)
    places = page.evaluate(PLACES)
    text = page.locator(TEXT).evaluate("box => [box.scrollHeight, box.clientHeight]")
    assert text[0] > text[1] and places["scrolled"] == 0 and places["first"] and places["focus"]
    if places["run"]:
        page.evaluate("window.scrollBy(0, -20)")  # who has it in sight is left where they are
        before = page.evaluate("window.scrollY")
        run(page)
        assert page.evaluate("window.scrollY") == before


def test_tokens_tell_their_probabilities_and_rejected_ones_can_be_hidden(page):
    run(page)
    tip = page.locator(".token-view .tip")
    page.locator(f"{TEXT} .token.accepted").first.hover()
    for word in ("accepted draft", "cycle", "position", "draft probability", "target probability"):
        assert word in tip.inner_text()
    page.locator(f"{TEXT} .more").first.hover()
    assert "other rejected nodes" in tip.inner_text()
    page.locator(f"{TEXT} .token.first").focus()
    page.keyboard.press("ArrowRight")
    assert "cycle" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    rejected = page.locator(f"{TEXT} .rejected")
    assert rejected.first.is_visible()
    page.get_by_label("Show rejected").uncheck()
    assert rejected.first.is_hidden()
    run(page)  # and they fade while tokens come
    assert rejected.count() > 0
    assert page.locator(f"{TEXT} .rejected:visible").count() == 0


STOP_AT = """count => new MutationObserver((_, observer) => {
  const stop = document.querySelector("#stop");
  if (stop.disabled || document.querySelectorAll("#view .cycle").length < count) return;
  observer.disconnect();
  stop.click();
}).observe(document.body, { attributes: true, childList: true, subtree: true })"""


def test_stop_ends_the_run_and_keeps_what_was_done(page):
    page.emulate_media(reduced_motion="reduce")  # a page that scrolls smoothly moves the button
    settings(page, depth=12, breadth=16, budget=64, tokens=512)
    page.evaluate(STOP_AT, 8)  # within the page: the run may be over before a test can look
    start(page)
    finish(page)
    wait_for_status(page, "you pressed Stop")
    assert tile(page, "Ended by") == "stopped"
    assert 8 <= page.locator(f"{TEXT} .cycle").count() < 250
    chart(page, "chart-lengths")
    start(page)
    page.evaluate("document.querySelector('#stop').click()")
    finish(page)


def test_hostile_text_stays_text(page):
    written = run(page, HOSTILE)
    assert HOSTILE in raw_prompt(page, HOSTILE)
    for text in ("${6*7}", "<b>x</b>", "{{x}}", "`y`", "<script>"):
        assert text in written
    assert page.locator(f"{TEXT} b").count() == 0
    run(page, "one\x00two\x1b[31m\u202ethree \ud83e\udd8a")  # control characters do no harm


def test_a_prompt_that_cannot_be_read_gets_a_sentence(page):
    before = run(page)
    for prompt, word in (
        ("", "empty"), ("a" * 100_000, "100,000"), (" \n\t ", "empty"), ("a b " * 4_000, "Shorten"),
    ):  # fmt: skip
        type_prompt(page, prompt)
        page.click("#run")
        wait_for_status(page, word)
        page.wait_for_selector("#run:not([disabled])")
        assert page.evaluate(KEPT) == before
    run(page, "Tell me a story.")


def test_an_n_without_a_drafter_says_so_and_the_page_goes_on(page):
    slider = page.get_by_role("slider", name="TLI")
    slider.focus()
    slider.press("End")
    page.wait_for_selector("#tli-stops .refusal")
    assert "No MoA drafter is trained for TLI N = 3" in page.inner_text("#tli-stops")
    assert page.locator("#tli-stops li.untrained").count() == 2
    page.click("#run")
    wait_for_status(page, "No MoA drafter is trained for TLI N = 3")
    page.wait_for_selector("#run:not([disabled])")
    slider.press("Home")
    page.wait_for_selector("#tli-stops p.about")
    run(page)
    assert "tokens in" in status(page)


def test_a_slider_s_box_that_is_left_empty_keeps_its_number(page):
    settings(page, tokens=40)
    box = page.locator("#tokens input[type=number]")
    box.fill("")
    box.press("Tab")
    assert box.input_value() == "40"
    box.fill("")
    run(page)
    assert "40 tokens in" in status(page)
    box.fill("")
    box.press_sequentially("12")
    run(page)
    assert "12 tokens in" in status(page)


def test_vanilla_gains_one_token_a_call_and_writes_the_same_text(page):
    drafted = run(page)
    assert float(tile(page, "Acceptance length τ")) > 1
    assert "drafter in Live: MoA N=0" in page.inner_text("#machine")
    page.get_by_label("Vanilla").check()
    page.wait_for_selector("#machine:has-text('drafter in Live: none, plain decoding')")
    page.wait_for_selector("#tli-stops .stops.off")
    assert run(page) == drafted
    assert tile(page, "Acceptance length τ") == "1.00"
    assert page.locator(f"{TEXT} .rejected").count() == 0


def test_a_second_visitor_waits_and_a_closed_tab_frees_the_place(page, browser, app):
    settings(page, depth=12, breadth=16, budget=64, tokens=512)
    other = browser.new_page()
    other.goto(app)
    other.wait_for_selector("#run:not([disabled])")
    start(page)
    other.click("#run")
    wait_for_status(other, "Another run is going on")
    page.close()
    finish(other)
    assert "tokens in" in status(other)
    other.close()


def test_the_endpoint_answers_a_program(app):
    client = pytest.importorskip("gradio_client")
    api = client.Client(app, verbose=False)
    endpoints = api.view_api(print_info=False, return_format="dict")["named_endpoints"]
    assert set(endpoints) == {"/decode", "/compare"}
    job = api.submit("Tell me a story.", method="moa-n1", max_new_tokens=300, api_name="/decode")
    text, figures = job.result(60)
    seen = job.outputs()
    assert len(seen) > 1 and all(text.startswith(part) for part, _ in seen)
    assert [part["tokens"] for _, part in seen] == sorted(part["tokens"] for _, part in seen)
    assert figures["tokens"] == 300 and figures["reason"] == "length" and figures["tau"] > 1
    assert "reason" not in seen[0][1]
    for wrong, word in (({"method": "moa-n2"}, "N = 2"), ({"depth": 99}, "depth")):
        with pytest.raises(Exception, match=word):
            api.predict("Tell me a story.", **wrong, api_name="/decode")


def test_messages_of_a_stream_that_overtake_each_other_do_not_change_the_text(page):
    settings(page, tokens=200)
    wrote = run(page, "Tell me about a frog.")
    page.evaluate(OVERTAKE)
    assert run(page, "Tell me about a frog.") == wrote
    assert page.evaluate("window.overtaken") > 0
    assert page.locator(".token-view .cycle").count() > 3
