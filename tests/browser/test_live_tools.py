"""The Live tab at its looks, and its tools: comparing, slow motion, saved traces, links."""

import json
import re
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import LOOKS, both_themes, keep_picture
from tests.browser.driving import (
    AUTO,
    DONE,
    KEPT,
    NEW_RUN,
    TEXT,
    can_be_read,
    chart,
    charts_are_named,
    fits,
    run,
    settings,
    status,
    tile,
    type_prompt,
    wait_for_status,
)

pytestmark = pytest.mark.browser

LINKED = "() => document.querySelector('#link textarea').value.startsWith('http')"
HOLDS = "([id, value]) => document.querySelector(`#${id} input[type=number]`)?.value === value"
PRESS_NEXT = """() => {
  [...document.querySelectorAll('.pacer button')].find(b => b.textContent === 'Next cycle').click();
  return document.querySelectorAll('.token-view .unjudged').length;
}"""
TREE = "auto_tree=0&depth=3&breadth=3&budget=8"  # one that rejects some, however slow the machine
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


def columns(page, name):
    """What a chart draws: the heights of each of its traces."""
    return [one["y"] for one in chart(page, name)["data"]]


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_charts_show_the_traces_numbers_at_every_look(open_page, look, tmp_path):
    page = open_page(f"?tab=live&method=moa-n0&tokens=40&{TREE}", look, "#run:not([disabled])")
    run(page)
    trace = json.loads(saved_trace(page, tmp_path).read_text())
    verified = [event for event in trace["events"] if event["event"] == "Verified"]
    drafts, bonus = columns(page, "chart-lengths")
    assert drafts == [len(event["path"]) for event in verified] and set(bonus) == {1}
    draft, verify, _ = columns(page, "chart-phases")
    assert verify == pytest.approx([1000 * event["seconds"] for event in verified])
    assert len(draft) == len(verified)
    [latency] = columns(page, "chart-latency")
    assert latency == sorted(latency) and len(latency) == len(verified) + 1
    gained = [len(event["path"]) + 1 for event in verified]
    tau = f"{sum(gained) / len(gained):.2f}"
    assert tile(page, "Acceptance length τ") == tau
    note = page.inner_text(".token-view .tile:has(dt:text-is('Acceptance length τ')) .note")
    assert "bonus included; MoA N=0, tree 3-3-8" in note
    cut = 1 + sum(gained) > 40
    assert ("cut short, counts whole" in note) == ("cut short counts whole" in status(page)) == cut
    assert chart(page, "chart-lengths")["words"] == (
        f"Tokens gained in each cycle: {len(gained)} cycles, "
        f"from {min(gained)} to {max(gained)}, mean {tau}."
    )
    assert charts_are_named(page)
    assert page.locator(".token-view .spark rect").count() >= 2 * (len(verified) - 1)
    assert fits(page)
    for _ in both_themes(page):
        marks = (f"{TEXT} .{kind} .mark" for kind in ("accepted", "rejected", "bonus", "first"))
        assert can_be_read(
            page, *marks, f"{TEXT} .more", ".token-view .note", ".quiet-button:not([hidden])",
            "#machine .status-line", "#run",
        )  # fmt: skip
        keep_picture(page, "live")


def test_plain_decoding_is_compared_on_demand(page):
    assert tile(page, "Speed-up") == "–"
    page.click("#compare-plain")
    wait_for_status(page, "Run a prompt first")
    page.wait_for_selector("#compare-plain:not([disabled])")
    run(page)
    page.click("#compare-plain")
    wait_for_status(page, "Identical to plain decoding")
    assert tile(page, "Exactness") == "✓ same"
    ratios = [float(end) for end in tile(page, "Speed-up").removesuffix(" ×").split("–")]
    words = page.inner_text(".token-view .tile:has(dt:text-is('Speed-up')) .note")
    rates = re.search(r"(\d+)(?: \(\d+–\d+\))? tokens/s, plain decoding (\d+)", words)
    ours, plain = map(float, rates.groups())
    assert 0.98 * ratios[0] < ours / plain < 1.02 * ratios[-1] and "3 runs each" in words
    assert (len(ratios) == 2) == ("Too close to call" in words)
    assert "Slower than plain" not in words or ratios[0] < 1
    run(page)
    assert tile(page, "Speed-up") == "–"


def test_step_by_step_shows_one_cycle_for_each_press(page):
    settings(page)
    page.get_by_label("Step by step").check()
    before = page.locator(".token-view").get_attribute("data-run")
    page.click("#run")
    page.wait_for_function(NEW_RUN, arg=before)
    page.wait_for_selector("#run:not([disabled])")
    assert cycles(page) == 1  # the first token's; the run itself is over
    assert "decoded already; this is its replay" in page.inner_text(".token-view .tiles")
    assert re.fullmatch(r"cycle 0 of \d+, replayed", page.inner_text(".pacer .count"))
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
    run(page)
    path = saved_trace(page, tmp_path)
    other = open_page()
    other.get_by_role("button", name=FILES).click()
    other.set_input_files("#open input[type=file]", path)
    wait_for_status(other, "Opened: MoA N=0 for tiny")
    other.wait_for_function(DONE)
    assert other.evaluate(KEPT) == page.evaluate(KEPT)
    for name in ("Acceptance length τ", "Target calls", "Tokens per second", "Ended by"):
        assert tile(other, name) == tile(page, name), name
    assert chart(other, "chart-lengths") == chart(page, "chart-lengths")
    # A file that is no trace gets a sentence and loses nothing.
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    page.set_input_files("#open input[type=file]", wrong)
    wait_for_status(page, "not a trace of this program")
    assert page.evaluate(KEPT) == other.evaluate(KEPT)
    # After one file another can be opened.
    wrong.write_text("[]")
    other.set_input_files("#open input[type=file]", wrong)
    wait_for_status(other, "not a trace of this program")


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
    page.wait_for_function(LINKED)
    link = urlsplit(page.locator("#link textarea").input_value())
    other = open_page(f"?{link.query}")
    other.wait_for_selector("#tli-stops li.chosen:has-text('N = 1')", state="attached")
    assert other.locator("#prompt textarea").input_value() == prompt
    other.get_by_role("button", name="Draft tree, sampling, length and pace").click()
    for name, value in {"tokens": "33", "temperature": "0.5", "seed": "7"}.items():
        other.wait_for_function(HOLDS, arg=[name, value])
    assert not other.get_by_label(AUTO).is_checked()
    run(other)
    assert tile(other, "Target calls") != "–"


def test_trees_are_sized_automatically_until_a_shape_is_wanted(page):
    settings(page)
    auto, numbers = page.get_by_label(AUTO), "#settings :is(#depth, #breadth, #budget) input"
    assert auto.is_checked()
    assert page.locator(f"{numbers}:disabled").count() == page.locator(numbers).count() >= 3
    written = run(page)
    note = page.inner_text("#view .tile:has(dt:text-is('Acceptance rate')) .note")
    drafted, cycles = int(note.split()[3]), int(tile(page, "Target calls")) - 1
    assert note.endswith(f"the mean tree has {drafted / cycles:.1f}")
    auto.uncheck()
    page.wait_for_selector("#depth input[type=number]:not([disabled])")
    assert page.locator(f"{numbers}:disabled").count() == 0
    assert run(page) == written
    note = page.inner_text("#view .tile:has(dt:text-is('Acceptance length τ')) .note")
    assert "tree 3-3-8 (depth-breadth-budget)" in note
    auto.check()
    page.wait_for_selector("#depth input[type=number]:disabled")


def test_an_address_that_cannot_be_used_says_what(open_page):
    page = open_page("?method=moa-n7&tokens=many")
    wait_for_status(page, "tokens must be a number from 1 to 512")
    page.wait_for_selector("#run:not([disabled])")
    run(page)


def test_examples_fill_the_prompt_and_presets_set_method_and_pace(page):
    page.get_by_role("button", name="Spanish").click()
    page.wait_for_function(
        "document.querySelector('#prompt textarea').value === 'Say 742 in Spanish.'"
    )
    page.click("#teaching")
    page.wait_for_selector("#tli-stops li.chosen:has-text('N = 1')", state="attached")
    wait_for_status(page, "Set: MoA N=1 with trees sized automatically")
    settings(page)
    assert page.get_by_label("Slow motion", exact=True).is_checked()
    page.click("#speed")
    page.wait_for_selector("#tli-stops li.chosen:has-text('N = 0')", state="attached")
    assert page.get_by_label("Full speed", exact=True).is_checked()
