"""The Live tab's tools: comparing, slow motion, traces as files, links, chats, all four looks."""

import json
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import LOOKS, keep_picture
from tests.browser.driving import (
    DONE,
    KEPT,
    NEW_RUN,
    TEXT,
    contrast,
    finish,
    settings,
    start,
    tile,
    type_prompt,
    wait_for_status,
)

pytestmark = pytest.mark.browser

PLOT = "id => document.querySelector(`#${id} .js-plotly-plot`).data.map(d => Array.from(d.y))"
WIDER = "() => document.documentElement.scrollWidth > window.innerWidth"
LINKED = "() => document.querySelector('#link textarea').value.startsWith('http')"
HOLDS = "([id, value]) => document.querySelector(`#${id} input[type=number]`)?.value === value"
PRESS_NEXT = """() => {
  [...document.querySelectorAll('.pacer button')].find(b => b.textContent === 'Next cycle').click();
  return document.querySelectorAll('.token-view .unjudged').length;
}"""
JUDGED = "() => !document.querySelector('.token-view .unjudged')"
FILES = "Save, open, share"


def saved_trace(page, folder):
    """The run's trace, as the visitor would download it."""
    page.get_by_role("button", name=FILES).click()
    page.wait_for_selector("#save:not([disabled])")
    with page.expect_download() as download:
        page.click("#save")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def cycles(page):
    return page.locator(f"{TEXT} .cycle").count()


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_charts_show_the_traces_numbers_at_every_look(open_page, look, tmp_path):
    page = open_page("?tab=live&method=moa-n0&tokens=40", look)
    page.wait_for_selector("#run:not([disabled])")
    start(page)
    finish(page)
    page.wait_for_selector("#chart-phases .main-svg")
    trace = json.loads(saved_trace(page, tmp_path).read_text())
    verified = [event for event in trace["events"] if event["event"] == "Verified"]
    drafts, bonus = page.evaluate(PLOT, "chart-lengths")
    assert drafts == [len(event["path"]) for event in verified] and set(bonus) == {1}
    draft, verify, _ = page.evaluate(PLOT, "chart-phases")
    assert verify == pytest.approx([1000 * event["seconds"] for event in verified])
    assert len(draft) == len(verified)
    [latency] = page.evaluate(PLOT, "chart-latency")
    assert latency == sorted(latency) and len(latency) == len(verified) + 1
    gained = sum(len(event["path"]) + 1 for event in verified)
    assert tile(page, "Acceptance length τ") == f"{gained / len(verified):.2f}"
    assert page.locator(".token-view .spark rect").count() >= 2 * (len(verified) - 1)
    assert not page.evaluate(WIDER)
    for place in (".token-view .note", ".quiet-button:not([hidden])", "#machine .status-line"):
        assert contrast(page, place) >= 4.5, place
    keep_picture(page, "live")


def test_plain_decoding_is_compared_on_demand(page):
    assert tile(page, "Speed-up") == "–"
    page.click("#compare-plain")
    wait_for_status(page, "Run a prompt first")
    page.wait_for_selector("#compare-plain:not([disabled])")
    start(page)
    finish(page)
    page.click("#compare-plain")
    wait_for_status(page, "tokens are plain decoding’s")
    assert tile(page, "Exactness") == "✓ same"
    ratio = float(tile(page, "Speed-up").removesuffix(" ×"))
    words = page.inner_text(".token-view .tile:has(dt:text-is('Speed-up')) .note")
    assert ("slower than plain" in words) == (ratio < 1)
    start(page)
    finish(page)
    assert tile(page, "Speed-up") == "–"


def test_step_by_step_shows_one_cycle_for_each_press(page):
    settings(page)
    page.get_by_label("Step by step").check()
    before = page.locator(".token-view").get_attribute("data-run")
    page.click("#run")
    page.wait_for_function(NEW_RUN, arg=before)
    page.wait_for_selector("#run:not([disabled])")
    assert cycles(page) == 1  # the first token's; the run itself is over
    for count in (2, 3):
        assert page.evaluate(PRESS_NEXT) == 1  # drafted, and not yet judged
        assert cycles(page) == count
        page.wait_for_function(JUDGED)
    assert page.locator(".token-view").get_attribute("data-state") == "running"
    assert tile(page, "Target calls") == "3"
    page.get_by_role("button", name="Skip to the end").click()
    page.wait_for_function(DONE)
    whole = page.evaluate(KEPT)
    page.get_by_role("button", name="Replay in slow motion").click()
    assert cycles(page) <= 2 and page.get_by_role("button", name="Pause").is_visible()
    page.get_by_role("button", name="Skip to the end").click()
    page.wait_for_function(DONE)
    assert page.evaluate(KEPT) == whole


def test_a_trace_is_saved_and_opened_by_another_visitor(page, open_page, tmp_path):
    start(page)
    finish(page)
    path = saved_trace(page, tmp_path)
    other = open_page()
    other.get_by_role("button", name=FILES).click()
    other.set_input_files("#open input[type=file]", path)
    wait_for_status(other, "Opened: moa-n0 for tiny")
    other.wait_for_function(DONE)
    assert other.evaluate(KEPT) == page.evaluate(KEPT)
    for name in ("Acceptance length τ", "Target calls", "Tokens per second", "Ended by"):
        assert tile(other, name) == tile(page, name), name
    other.wait_for_selector("#chart-lengths .main-svg")
    assert other.evaluate(PLOT, "chart-lengths") == page.evaluate(PLOT, "chart-lengths")


def test_a_file_that_is_no_trace_gets_a_sentence(page, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    start(page)
    finish(page)
    before = page.evaluate(KEPT)
    page.get_by_role("button", name=FILES).click()
    page.set_input_files("#open input[type=file]", wrong)
    wait_for_status(page, "not a trace of this program")
    assert page.evaluate(KEPT) == before


def test_a_link_brings_the_settings_along(page, open_page):
    prompt = "A fox & a hen? 100 % ${6*7} <b>é</b>"
    type_prompt(page, prompt)
    settings(page, tokens=33, depth=2, temperature=0.5, seed=7)
    slider = page.get_by_role("slider", name="TLI")
    slider.focus()
    slider.press("ArrowRight")
    page.wait_for_selector("#tli-stops li.chosen:has-text('N = 1')", state="attached")
    page.get_by_role("button", name=FILES).click()
    page.click("#share")
    page.wait_for_function(
        "() => document.querySelector('#link textarea').value.startsWith('http')"
    )
    link = urlsplit(page.locator("#link textarea").input_value())
    other = open_page(f"?{link.query}")
    other.wait_for_selector("#tli-stops li.chosen:has-text('N = 1')", state="attached")
    assert other.locator("#prompt textarea").input_value() == prompt
    other.get_by_role("button", name="Draft tree, sampling, length and pace").click()
    for name, value in {"tokens": "33", "temperature": "0.5", "seed": "7"}.items():
        other.wait_for_function(HOLDS, arg=[name, value])
    start(other)
    finish(other)
    assert tile(other, "Target calls") != "–"


def test_an_address_that_cannot_be_used_says_what(open_page):
    page = open_page("?method=moa-n7&tokens=many")
    wait_for_status(page, "tokens must be a number from 1 to 512")
    page.wait_for_selector("#run:not([disabled])")
    start(page)
    finish(page)


def test_a_chat_remembers_what_was_said(page):
    page.locator("#chat button").first.click()
    page.get_by_label("Go on with one chat").check()
    page.fill("#system textarea", "Be kind.")
    settings(page, tokens=8)
    type_prompt(page, "First words")
    start(page)
    finish(page)
    page.wait_for_selector("#history:has-text('First words')")
    type_prompt(page, "Second words")
    start(page)
    finish(page)
    page.get_by_role("button", name="Raw prompt").click()
    raw = page.locator("#raw textarea").input_value()
    assert raw.startswith("<|bos|><|system|>Be kind.<|end|><|user|>First words<|end|><|assistant|>")
    assert raw.endswith("<|end|><|user|>Second words<|end|><|assistant|>")
    page.click("#forget")
    page.wait_for_selector("#history", state="hidden")


def test_presets_set_method_and_pace(page):
    page.click("#teaching")
    page.wait_for_selector("#tli-stops li.chosen:has-text('N = 1')", state="attached")
    settings(page)
    assert page.get_by_label("Slow motion", exact=True).is_checked()
    page.click("#speed")
    page.wait_for_selector("#tli-stops li.chosen:has-text('N = 0')", state="attached")
    assert page.get_by_label("Full speed", exact=True).is_checked()


def test_the_text_can_be_copied(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    start(page)
    finish(page)
    page.get_by_role("button", name="Copy text").click()
    page.wait_for_selector("button:has-text('Copied')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied and copied == page.evaluate(KEPT)


def test_rejected_drafts_fade_where_they_are_not_wanted(page):
    page.get_by_label("Show rejected").uncheck()
    start(page)
    finish(page)
    assert page.locator(f"{TEXT} .rejected").count() > 0
    assert all(not one.is_visible() for one in page.locator(f"{TEXT} .rejected").all()[:20])
