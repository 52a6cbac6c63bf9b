"""The Live tab, driven as a visitor would."""

import time

import pytest

from tests.browser.conftest import running_app
from tests.browser.driving import (
    KEPT,
    TEXT,
    contrast,
    finish,
    settings,
    start,
    status,
    tile,
    type_prompt,
    wait_for_status,
)

pytestmark = pytest.mark.browser

HOSTILE = "${6*7} <b>x</b> {{x}} `y` <script>alert(1)</script>"


def test_the_first_token_comes_soon_after_the_process_starts(browser, bundle, tmp_path):
    with running_app(bundle, tmp_path / "log.txt") as (url, started):
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector("#run:not([disabled])")
        page.click("#run")
        page.wait_for_selector(f"{TEXT} .token")
        seconds = time.monotonic() - started
        page.close()
    print(f"\nfrom process start to the first token in the page: {seconds:.1f} s")
    assert seconds <= 20


def test_a_run_shows_every_kind_of_token_and_its_figures(page):
    type_prompt(page, "Tell me a story.")
    start(page)
    finish(page)
    for kind in ("accepted", "rejected", "bonus", "first"):
        assert page.locator(f"{TEXT} .token.{kind}").count() > 0, kind
    assert page.locator(f"{TEXT} .more").count() > 0
    assert "river.\n" in page.evaluate(KEPT)
    cycles = page.locator(f"{TEXT} .cycle").count()
    assert tile(page, "Target calls") == str(cycles)
    assert float(tile(page, "Acceptance length τ")) > 1
    assert tile(page, "Ended by") == "length"
    assert page.inner_text(".token-view .tiles").count("bonus included") == 1
    assert status(page).startswith("128 tokens in ")
    page.wait_for_selector("#chart-lengths .main-svg")
    page.get_by_role("button", name="Raw prompt").click()
    raw = page.locator("#raw textarea")
    assert raw.input_value() == "<|bos|><|user|>Tell me a story.<|end|><|assistant|>"


def test_pointing_at_a_token_tells_its_probabilities(page):
    start(page)
    finish(page)
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


def test_rejected_drafts_can_be_hidden(page):
    start(page)
    finish(page)
    rejected = page.locator(f"{TEXT} .rejected").first
    assert rejected.is_visible()
    page.get_by_label("Show rejected").uncheck()
    assert rejected.is_hidden()


def test_stop_ends_the_run_and_keeps_what_was_done(page):
    settings(page, depth=12, breadth=16, budget=64, tokens=512)
    start(page)
    page.wait_for_selector(f"{TEXT} .cycle:nth-of-type(8)")
    page.click("#stop")
    finish(page)
    wait_for_status(page, "you pressed Stop")
    assert tile(page, "Ended by") == "stopped"
    assert 8 <= page.locator(f"{TEXT} .cycle").count() < 250
    page.wait_for_selector("#chart-lengths .main-svg")
    start(page)
    page.click("#stop")
    finish(page)


def test_hostile_text_stays_text(page):
    type_prompt(page, HOSTILE)
    start(page)
    finish(page)
    page.get_by_role("button", name="Raw prompt").click()
    assert HOSTILE in page.locator("#raw textarea").input_value()
    written = page.evaluate(KEPT)
    for text in ("${6*7}", "<b>x</b>", "{{x}}", "`y`", "<script>"):
        assert text in written
    assert page.locator(f"{TEXT} b").count() == 0


@pytest.mark.parametrize(
    ("prompt", "word"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("a" * 100_000, "100,000"),
        ("a b " * 4_000, "Shorten"),
    ],
)
def test_a_prompt_that_cannot_be_read_gets_a_sentence(page, prompt, word):
    start(page)
    finish(page)
    before = page.evaluate(KEPT)
    type_prompt(page, prompt)
    page.click("#run")
    wait_for_status(page, word)
    assert page.evaluate(KEPT) == before
    type_prompt(page, "Tell me a story.")
    page.wait_for_selector("#run:not([disabled])")
    start(page)
    finish(page)


def test_control_characters_do_no_harm(page):
    type_prompt(page, "one\x00two\x1b[31m\u202ethree \ud83e\udd8a")
    start(page)
    finish(page)


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
    start(page)
    finish(page)
    assert "tokens in" in status(page)


def test_vanilla_gains_one_token_a_call(page):
    page.get_by_label("Vanilla").check()
    page.wait_for_selector("#tli-stops .stops.off")
    start(page)
    finish(page)
    assert tile(page, "Acceptance length τ") == "1.00"
    assert page.locator(f"{TEXT} .rejected").count() == 0


def test_every_method_writes_the_same_text(page):
    texts = []
    for method in ("MoA", "Vanilla"):
        page.get_by_label(method, exact=True).check()
        start(page)
        finish(page)
        texts.append(page.evaluate(KEPT))
    assert texts[0] == texts[1]


def test_a_second_visitor_waits_and_a_closed_tab_frees_the_place(page, browser, app):
    settings(page, depth=12, breadth=16, budget=64, tokens=512)
    other = browser.new_page()
    other.goto(app[0])
    other.wait_for_selector("#run:not([disabled])")
    start(page)
    other.click("#run")
    wait_for_status(other, "Another run is going on")
    page.close()
    finish(other)
    assert "tokens in" in status(other)
    other.close()


def test_an_example_fills_the_prompt(page):
    page.get_by_role("button", name="Spanish").click()
    page.wait_for_function(
        "document.querySelector('#prompt textarea').value === 'Say 742 in Spanish.'"
    )


def test_the_endpoint_answers_a_program(app):
    client = pytest.importorskip("gradio_client")
    api = client.Client(app[0], verbose=False)
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_token_colours_can_be_read(page, scheme):
    page.get_by_text("Target tiny").wait_for()  # leaving while that loads is gradio's error to tell
    page.goto(f"{page.url.split('?')[0]}?__theme={scheme}")
    page.wait_for_selector("#run:not([disabled])")
    start(page)
    finish(page)
    for kind in ("accepted .mark", "rejected .mark", "bonus .mark", "first .mark"):
        assert contrast(page, f"{TEXT} .{kind}") >= 4.5, kind
    for place in (f"{TEXT} .more", ".token-view .note", "#machine .status-line", "#run"):
        assert contrast(page, place) >= 4.5, place
