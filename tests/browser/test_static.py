"""The static page: from disk, with no request beyond its folder."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from demo import static
from demo.common.figures import method_of
from demo.live.recording import recording
from moa_core.decoding.trace import OfflineToken
from tests.browser.conftest import every_look, keep_picture, listen, looks, new_tab
from tests.browser.driving import KEPT, LANE, TEXT, can_be_read, figure

OVER = f"{LANE}[data-state=done]"


@contextmanager
def visit(browser, folder):
    """The page in a window of its own. Any error and any request to elsewhere fails the test."""
    window, place = browser.new_context(), f"{folder.as_uri()}/"
    page = new_tab(window)
    said = listen(page, place)
    page.goto(place + "index.html")
    yield page
    window.close()
    assert not said, json.dumps(said, indent=1)


@pytest.fixture(scope="module", autouse=True)
def recorded(bundle):
    """It is of the tiny bundle's runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(bundle))
        yield


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    out = tmp_path_factory.mktemp("static") / "page"
    assert static.main([str(out)]) == 0
    assert sum(one.stat().st_size for one in out.iterdir()) < 1_000_000
    with visit(browser, out) as page:
        yield page


@pytest.fixture
def page(opened):
    """It again, as the tests before have left it, but for its look."""
    return looks(opened)


def words(trace):
    return "".join(trace.about["words"]["output"])


def test_a_run_plays_and_steps_with_its_trees(page):
    kept = recording().trace
    page.wait_for_selector(OVER)
    back, on = (page.get_by_role("button", name=f"{one} cycle") for one in ("Previous", "Next"))
    while back.is_enabled():
        back.click()
    drawn = set()
    for cycle, (_, verified) in enumerate(kept.cycles, 1):
        on.click()
        count = page.inner_text("#view .pacer .count").split(" + ")[-1]
        last = cycle == len(kept.cycles)
        assert count == (f"{cycle} cycles" if last else f"cycle {cycle} of {len(kept.cycles)}")
        accepted = page.locator("[data-stage=tree] .node.accepted").count()
        assert accepted == len(verified.path)
        drawn.add(page.inner_html("[data-stage=tree] svg"))
    assert len(drawn) > 1
    page.wait_for_selector(OVER)
    assert page.evaluate(KEPT, LANE) == words(kept)
    assert page.locator(f"{TEXT} [data-token=rejected]").count() > 0
    assert figure(page, "exact") == 1 and figure(page, "calls") == kept.target_calls


def test_it_can_be_read_and_used_by_keyboard_at_every_size(page):
    for _ in every_look(page):
        assert can_be_read(
            page, f"{TEXT} .accepted .mark", "#view .headline", "nav a",
            "nav a[aria-current]", "main h2", "main h2 + p", "footer p",
        )  # fmt: skip
        keep_picture(page, "static")
    page.keyboard.press("Tab")
    page.evaluate("document.querySelector('nav a').focus()")
    for name in ("The connection is cut", "A race"):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"nav a[aria-current=page]:has-text('{name}')")
        for _ in every_look(page):
            assert page.evaluate("window.scrollY") == 0
            keep_picture(page, f"static-{name.split()[-1]}")


def test_the_race_ends_with_all_methods(page):
    kept = recording()
    page.get_by_role("link", name="A race").click()
    page.wait_for_selector(".race[data-state=done]")
    tracks = page.inner_text(".race .tracks")
    assert all(method_of(trace) in tracks for trace in (kept.trace, kept.rival, kept.plain))
    assert "1st" in tracks or "tie" in tracks
    states = page.locator(".race .state").all_inner_texts()
    for trace, state in zip((kept.trace, kept.rival, kept.plain), states, strict=True):
        assert f"in {trace.target_calls} model calls" in state


def test_the_cut_shows_what_the_drafter_writes_alone_and_what_becomes_of_it(page):
    kept = recording()
    alone = len(kept.cut.of(OfflineToken))
    page.goto(page.url.split("#")[0] + "#cut")
    page.reload()
    page.wait_for_selector(OVER)
    healed = page.locator(f"{TEXT} .confirmed, {TEXT} .changed")
    assert healed.count() == alone and not page.locator(f"{TEXT} .offline").count()
    assert page.evaluate(KEPT, LANE) == words(kept.plain) and figure(page, "exact") == 1
    page.get_by_role("link", name="A run").click()
    page.wait_for_selector(f"{LANE}[data-state=running]")


def test_what_a_model_wrote_is_no_markup(browser, tmp_path, monkeypatch):
    kept, bad = recording(), "</script><b id=bad>"
    about = json.loads(json.dumps(kept.trace.about))
    about["prompt"] = about["words"]["output"][0] = bad
    hostile = replace(kept, trace=replace(kept.trace, about=about))
    monkeypatch.setattr(static, "recording", lambda: hostile)
    static.write(tmp_path / "page")
    with visit(browser, tmp_path / "page") as page:
        page.wait_for_selector(OVER)
        assert page.evaluate(KEPT, LANE).startswith(bad) and bad in page.inner_text("footer")
        assert not page.locator("#bad").count()
