"""The Network tab, driven as a visitor would: slow links, cuts, and what becomes of the text."""

from urllib.parse import urlencode

import pytest

from moa_core.decoding.trace import Drafted, OfflineToken, Prefilled, Trace, Verified
from tests.browser.conftest import LOOKS, both_themes, keep_picture, running_app, visitor
from tests.browser.driving import (
    KEPT,
    can_be_read,
    chart,
    charts_are_named,
    fits,
    open_tab,
    run,
    status,
    type_number,
    wait_for_status,
)

pytestmark = pytest.mark.browser

READY = "#net-run:not([disabled])"
TEXT = "#net-view .text"
BUTTON = "#net-switch button"
SETTLED = "() => document.querySelector('#net-view .token-view').dataset.state === 'done'"
MORE = "Advanced"


def address(**settings):
    return f"?{urlencode({'tab': 'network', **settings})}"


def tile(page, name):
    return page.inner_text(f"#net-view .tile:has(dt:text-is('{name}')) dd.value")


def count(page, kind=""):
    return page.locator(f"{TEXT} .token{kind}").count()


def start(page):
    page.click("#net-run")
    page.wait_for_selector(f"{BUTTON}:not([disabled])")


def finish(page):
    page.wait_for_function(SETTLED)
    page.wait_for_selector(READY)
    page.wait_for_selector("#net-status .status-line[data-kind=done]")


# By the page itself: on a busy machine the run may be over before a driver has found the button.
CUT = """([cycle, button]) => {
  if (!document.querySelector(cycle)) return false;
  document.querySelector(button).click();
  return true;
}"""


def cut(page, after=3):
    page.wait_for_function(CUT, arg=[f"{TEXT} .cycle:nth-of-type({after})", BUTTON])
    page.wait_for_selector(f"{BUTTON}:text-is('Restore the link')")


def restore(page):
    page.click(BUTTON)
    page.wait_for_selector(f"{BUTTON}:text-is('Cut the link')")


def compare(page):
    page.click("#net-compare")
    wait_for_status(page, "Without a link ", "net-")
    page.wait_for_selector(READY)
    return status(page, "net-")


def saved(page):
    """The trace behind the page, as a visitor saves it."""
    if not page.locator("#net-save").is_visible():
        page.get_by_role("button", name="Save, share").click()
    page.wait_for_selector("#net-save:not([disabled])")
    with page.expect_download() as download:
        page.click("#net-save")
    return Trace.from_json(download.value.path().read_text())


def test_a_run_over_a_slow_link_shows_what_its_trace_says(open_page):
    page = open_page(address(link="slow-4g", tokens=10), ready=READY)
    assert "Lighthouse" in page.inner_text("#net-about")
    start(page)
    finish(page)
    trace = saved(page)
    answers, drafts = trace.of(Verified), trace.of(Drafted)
    assert len(trace.output_ids) == 10 == len(trace.verified_ids)
    spent = {one["name"]: one["y"] for one in chart(page, "net-timeline")["data"]}
    assert spent["network"] == pytest.approx([1000 * one.network_seconds for one in answers])
    assert spent["server"] == pytest.approx([1000 * one.seconds for one in answers])
    assert spent["draft, here"] == pytest.approx([1000 * one.seconds for one in drafts])
    assert sum(spent["network"]) / len(answers) > 100
    down, up = (one["y"] for one in chart(page, "net-traffic")["data"])
    assert down == [one.received for one in answers] and up == [one.sent for one in answers]
    [line] = chart(page, "net-latency")["data"]
    assert line["y"][-1] == 10
    calls = round(100 * trace.target_calls / 10)
    assert tile(page, "Server calls per 100 tokens") == str(calls)
    share = drafts[0].received + trace.of(Prefilled)[0].received
    assert tile(page, "The prompt’s share") == f"{share / 1000:.1f} kB"
    assert "Download size: " in page.inner_text("#net-weight")
    assert compare(page).startswith("All 10 tokens are the same without a link.")
    assert tile(page, "Same text as without a link") == "✓ same"


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_cut_while_text_streams_the_drafter_goes_on_and_the_text_heals(open_page, look):
    page = open_page(address(link="rtt=200", tokens=64, method="moa-n0"), look, READY)
    assert page.locator(BUTTON).is_disabled()
    start(page)
    cut(page)
    wait_for_status(page, "The link is lost: the drafter goes on alone.", "net-")
    page.wait_for_selector(f"{TEXT} .token.offline >> nth=5")
    page.locator(f"{TEXT} .token.offline").first.focus()
    assert "written offline: not verified" in page.inner_text("#net-view .tip")
    for _ in both_themes(page):
        marks = (f"{TEXT} .offline .mark", BUTTON, "#net-view .legend .offline .mark")
        assert can_be_read(page, *marks)
        keep_picture(page, "network-cut")
    restore(page)
    finish(page)
    trace = saved(page)
    assert trace.output_ids == trace.verified_ids and len(trace.output_ids) == 64
    confirmed, changed = count(page, ".confirmed"), count(page, ".changed")
    assert confirmed + changed == len(trace.of(OfflineToken)) and not count(page, ".offline")
    words = f"{confirmed} offline tokens confirmed, {changed} changed"
    assert words.replace("1 offline tokens", "1 offline token") in status(page, "net-")
    assert tile(page, "Offline tokens") == str(confirmed + changed)
    [healed, alone] = chart(page, "net-latency")["data"]
    assert len(alone["y"]) == confirmed + changed and healed["y"][-1] == 64
    assert compare(page).startswith("All 64 tokens are the same without a link.")
    text = page.evaluate(KEPT, "#net-view")
    assert fits(page) and charts_are_named(page)
    for _ in both_themes(page):
        words = [f"#net-{name} p" for name in ("about", "switch", "weight", "intro")]
        assert can_be_read(page, *words, *([f"{TEXT} .changed .mark"] if changed else []))
        keep_picture(page, "network")
    open_tab(page, "Live")  # where the address set nothing: it writes on beyond 64 tokens
    assert run(page).startswith(text)


def test_text_that_is_kept_is_labelled_and_gone_on_from(open_page):
    page = open_page(address(link="rtt=40", tokens=200, method="eagle2"), ready=READY)
    page.get_by_role("button", name=MORE).click()
    page.get_by_label("Keep it as it is, labelled, and go on verified").check()
    type_number(page, "#net-cut_after", 8)
    type_number(page, "#net-cut_for", 2)
    start(page)
    page.wait_for_selector(f"{TEXT} .token.kept")
    wait_for_status(page, "they are the drafter’s, not the target’s", "net-")
    page.locator(f"{TEXT} .token.kept").first.focus()
    assert "not the target’s" in page.inner_text("#net-view .tip")
    assert page.locator("#net-view .legend .kept").is_visible()
    page.click("#net-stop")
    finish(page)
    trace = saved(page)
    [kept] = [event for event in trace.of(Verified) if event.kept]
    assert count(page, ".kept") == len(trace.of(OfflineToken)) == len(kept.path)
    for _ in both_themes(page):
        assert can_be_read(page, f"{TEXT} .kept .mark")


def test_api_streaming_stops_with_the_link_and_goes_on_with_it(open_page):
    page = open_page(address(link="rtt=40,down=0.02", tokens=100, method="vanilla"), ready=READY)
    start(page)
    cut(page)
    wait_for_status(page, "nothing goes on until it is back", "net-")
    before = count(page)
    page.wait_for_timeout(500)
    assert count(page) == before < 100 and not count(page, ".offline")
    restore(page)
    finish(page)
    assert count(page) == 100 == len(saved(page).verified_ids)


def test_a_link_that_cannot_be_used_gets_a_sentence(open_page):
    page = open_page(address(link="rtt=fast"), ready=READY)
    wait_for_status(page, "rtt of a link must be a number", "net-")
    assert page.locator("#net-rtt").is_hidden()
    choose(page, "Your own figures")
    type_number(page, "#net-rtt", 250)
    page.wait_for_selector("#net-about :text('round trip 250 ms')")
    choose(page, "Offline")
    page.wait_for_selector("#net-about :text('nothing passes')")
    page.click("#net-run")
    wait_for_status(page, "Nothing passes this link", "net-")
    page.wait_for_selector(READY)


def choose(page, name):
    page.locator("#net-link input").click()
    page.get_by_role("option", name=name, exact=True).click()


def test_without_its_server_the_rest_of_the_page_works(bundle, window, tmp_path):
    options = ("--server", "ws://127.0.0.1:9", "--token", "any")
    with running_app(bundle, tmp_path / "log.txt", *options) as app, visitor(window, app) as opened:
        page = opened(address(tokens=16), ready=READY)
        page.click("#net-run")
        wait_for_status(page, "There is no server at ws://127.0.0.1:9", "net-")
        page.wait_for_selector(READY)
        open_tab(page, "Live")
        assert run(page)
