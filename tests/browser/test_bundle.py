"""The page with the bundled models, as a new visitor meets it: how soon it is there and moves,
that nothing jumps, what is rejected. Where MOA_SCREENSHOTS names a folder, the README's pictures go
there."""

import os
from io import BytesIO
from pathlib import Path
from time import monotonic

import pytest
from PIL import Image

from tests.browser.conftest import running_app
from tests.browser.driving import SHIFTS, TEXT, figure

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
MOVED = """() => {
  const look = setInterval(() => {
    if (document.querySelectorAll("#view [data-token]").length < 3) return;
    window.moved = performance.now() / 1000;
    clearInterval(look);
  }, 20);
}"""


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """On a server that has been visited before."""
    with running_app(None, tmp_path_factory.mktemp("app") / "log.txt") as url:
        window = browser.new_context(viewport={"width": 1280, "height": 800})
        page = window.new_page()
        page.set_default_timeout(120_000)
        page.goto(url)
        page.wait_for_selector("#machine .status-line:has-text('Target tiny-8m')")
        for script in (SHIFTS, MOVED):
            page.add_init_script(f"({script})()")
        page.goto(url)
        yield page
        window.close()


def picture(page, name, **where):
    if folder := os.environ.get("MOA_SCREENSHOTS"):
        page.wait_for_timeout(1000)  # charts are drawn a moment after they are there
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=bool(where), **where)


def test_it_is_there_at_once_moves_by_itself_and_jumps_nowhere(page):
    page.wait_for_function("window.moved")
    painted, moved = page.evaluate(PAINTED), page.evaluate("window.moved")
    page.click("#run")
    page.wait_for_selector("#stage[data-run=done]")
    assert figure(page, "exact") == 1 and figure(page, "tau") > 3
    page.wait_for_selector("#chart-latency .main-svg")
    assert page.locator(f"{TEXT} [data-token=rejected]").count() >= 20
    shifted = page.evaluate("window.shifted")
    print(f"painted {painted:.2f} s, moved {moved:.2f} s, shifted {shifted:.3f}")
    assert shifted < 0.1 and page.evaluate("window.scrollY") == 0
    picture(page, "live")
    if os.getloadavg()[0] <= (os.cpu_count() or 1):  # on a busy machine times say nothing
        assert painted <= 1.5 and moved - painted <= 1


def test_the_other_pictures(page):
    page.get_by_role("tab", name="Inside a cycle").click()
    page.wait_for_selector(".inside-view .rival:visible")
    slider = page.get_by_role("slider", name="Cycle")
    slider.fill("10")
    box = page.locator(".inside-view").bounding_box()
    assert page.locator(".inside-view .node.rejected").count() > 2
    picture(page, "inside", clip=box)
    page.get_by_role("tab", name="Side by side").click()
    page.click("#compare-run")
    page.wait_for_selector("#compare-status :text('runs are done')")
    page.locator(".race .tracks").scroll_into_view_if_needed()
    page.wait_for_selector(".race[data-state=done]")
    page.evaluate("window.scrollTo(0, 0)")
    box, race = (page.locator(place).bounding_box() for place in ("#compare-results", ".race"))
    assert page.locator(".race .text [data-token=rejected]").count() >= 20
    picture(page, "compare", clip={**box, "height": race["y"] + race["height"] - box["y"]})


def film(page, frames, seconds, until=None):
    """Add frames (picture, ms), a few a second; `until` a selector is there, if that is sooner."""
    end = monotonic() + seconds
    while monotonic() < end and not (until and page.locator(until).count()):
        began = monotonic()
        frame = Image.open(BytesIO(page.screenshot(type="jpeg", quality=90)))
        page.wait_for_timeout(120)
        took = round(1000 * (monotonic() - began))
        frames.append((frame.resize((960, 600), Image.Resampling.LANCZOS), took))


def test_the_moving_picture(page, tmp_path):
    """A run with its rejections, a larger N, the link cut in the middle of a story, and healed."""
    page.goto(page.url.split("?")[0] + "?pace=slow")
    page.wait_for_selector("#view [data-token]")
    frames = []
    film(page, frames, 3)
    page.click("#run")
    film(page, frames, 7)
    page.wait_for_selector("#stage[data-run=done]")
    page.wait_for_selector("#chart-latency .main-svg")
    film(page, frames, 2)
    slider = page.get_by_role("slider", name="TLI")
    slider.fill("1")
    film(page, frames, 1)
    slider.fill("3")
    page.click("#run")
    film(page, frames, 3)
    page.locator("#connection input").uncheck()
    page.wait_for_selector("#view .headline:has-text('the drafter continues alone')")
    film(page, frames, 4)
    page.locator("#connection input").check()
    film(page, frames, 8, until="#stage[data-run=done]")
    page.wait_for_selector("#stage[data-run=done]")
    film(page, frames, 2)
    path = Path(os.environ.get("MOA_SCREENSHOTS", tmp_path)) / "live.webp"
    (first, *rest), times = zip(*frames, strict=True)
    how = {"duration": list(times), "loop": 0, "quality": 45, "method": 4}
    first.save(path, save_all=True, append_images=rest, **how)
    assert 100_000 < path.stat().st_size < 3_000_000
