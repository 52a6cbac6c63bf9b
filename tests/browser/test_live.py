"""The Live tab, driven as a visitor would."""

import time

import pytest

pytestmark = pytest.mark.browser

HOSTILE = "${6*7} <b>x</b> {{x}} `y` <script>alert(1)</script>"
TEXT = ".token-view .text"
NEW_RUN = "old => document.querySelector('.token-view').getAttribute('data-run') !== old"
DONE = "() => document.querySelector('.token-view').dataset.state === 'done'"
KEPT = """() => {
  const text = document.querySelector('.token-view .text').cloneNode(true);
  for (const extra of text.querySelectorAll('.rejected, .more, .break')) extra.remove();
  return text.textContent;
}"""


def type_prompt(page, text):
    page.fill("#prompt textarea", text)


def start(page):
    """Press Run; wait until the new run's first tokens are there."""
    before = page.locator(".token-view").get_attribute("data-run")
    page.click("#run")
    page.wait_for_function(NEW_RUN, arg=before)


def finish(page):
    page.wait_for_function(DONE)
    page.wait_for_selector("#run:not([disabled])")


def status(page):
    return page.inner_text("#status .status-line")


def wait_for_status(page, word):
    page.wait_for_function(
        "word => document.querySelector('#status .status-line').textContent.includes(word)",
        arg=word,
    )


def settings(page, **values):
    """Open the settings and type numbers in."""
    page.get_by_role("button", name="Draft tree, sampling and length").click()
    for name, value in values.items():
        field = page.locator(f"#{name} input[type=number]")
        field.fill(str(value))
        field.press("Tab")


def tile(page, name):
    return page.inner_text(f".token-view .tile:has(dt:text-is('{name}')) .value")


def test_the_first_token_comes_soon_after_the_process_starts(page, app):
    type_prompt(page, "Tell me a story.")
    start(page)
    page.wait_for_selector(f"{TEXT} .token")
    seconds = time.monotonic() - app[1]
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
    page.wait_for_selector("#chart .main-svg")
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
    settings(page, depth=12, breadth=16, budget=64, length=512)
    start(page)
    page.wait_for_selector(f"{TEXT} .cycle:nth-of-type(8)")
    page.click("#stop")
    finish(page)
    wait_for_status(page, "you pressed Stop")
    assert tile(page, "Ended by") == "stopped"
    assert 8 <= page.locator(f"{TEXT} .cycle").count() < 250
    page.wait_for_selector("#chart .main-svg")
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
        page.get_by_label(method).check()
        start(page)
        finish(page)
        texts.append(page.evaluate(KEPT))
    assert texts[0] == texts[1]


def test_a_second_visitor_waits_and_a_closed_tab_frees_the_place(page, browser, app):
    settings(page, depth=12, breadth=16, budget=64, length=512)
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
    [(name, endpoint)] = api.view_api(print_info=False, return_format="dict")[
        "named_endpoints"
    ].items()
    assert name == "/generate" and len(endpoint["returns"]) == 2
    text, figures = api.predict("Tell me a story.", "moa", 1, 20, 0.0, 0, api_name="/generate")
    assert text and figures["tokens"] == 20 and figures["reason"] == "length"
    with pytest.raises(Exception, match="N = 2"):
        api.predict("Tell me a story.", "moa", 2, 20, 0.0, 0, api_name="/generate")


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


def contrast(page, selector):
    """WCAG contrast of an element's text with all the grounds below it."""
    return page.evaluate(CONTRAST, selector)


CONTRAST = """selector => {
  const rgba = text => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
    const pen = canvas.getContext('2d');
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = colour => {
    const [r, g, b] = colour.map(c => c / 255).map(
      c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = document.querySelector(selector);
  const grounds = [];
  for (let node = element; node; node = node.parentElement)
    grounds.unshift(rgba(getComputedStyle(node).backgroundColor));
  const ground = grounds.reduce(
    (below, [r, g, b, a]) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a)), [255, 255, 255]);
  const [one, two] = [light(ground), light(rgba(getComputedStyle(element).color).slice(0, 3))];
  return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
}"""
