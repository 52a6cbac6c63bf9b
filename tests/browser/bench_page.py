"""How long a visitor waits for the page: first paint, and for a place that another one gives up.

    python -m tests.browser.bench_page

Runs the app on the real bundle with a real Chromium. Prints the median and the worst of several
goes: the first paint after opening the address; from pressing Stop, or closing the tab, in one
window to the first token in another that waited (its prefill included); and whether three visitors
at once got what each gets alone, and in what time. Needs a quiet machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from playwright.sync_api import Browser, Page

from demo.common.methods import label
from demo.common.prompt import EXAMPLES
from tests.browser.bench_feeding import a_browser, real_app
from tests.browser.driving import KEPT, NEW_RUN, finish, start, type_prompt, wait_for_status

PROMPTS = list(EXAMPLES.values())[:3]
GOES = 7
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main() -> None:
    """Measure, and print."""
    with real_app() as url, a_browser() as browser:
        report("first paint", [first_paint(browser, url) for _ in range(GOES)])
        for name, leave in (("Stop", press_stop), ("a closed tab", close)):
            waits = [place_given_up(browser, url, leave) for _ in range(GOES)]
            report(f"{name} to another's first token", waits)
        three_visitors(browser, url)


def report(what: str, seconds: list[float]) -> None:
    """Median and worst, in milliseconds."""
    middle, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
    print(f"{what}: median {middle:.0f} ms, worst {worst:.0f} ms of {len(seconds)}", flush=True)


def opened(browser: Browser, address: str) -> Page:
    """A fresh visitor's page, ready to run."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(address)
    page.wait_for_selector("#machine:has-text('Target')")
    page.wait_for_selector("#run:not([disabled])")
    page.wait_for_selector("#stage")
    return page


def first_paint(browser: Browser, url: str) -> float:
    """Seconds from asking for the address to the first content painted, nothing cached."""
    page = browser.new_context().new_page()
    page.goto(url)
    page.wait_for_function(PAINT)
    took = page.evaluate(PAINT) / 1000
    page.context.close()
    return took


def press_stop(page: Page) -> None:
    page.click("#stop")


def close(page: Page) -> None:
    page.close()


def place_given_up(browser: Browser, url: str, leave: Callable[[Page], None]) -> float:
    """Seconds from one visitor's leaving to the first token of another who waits."""
    here, there = (opened(browser, f"{url}?tab=live&method=vanilla&tokens=512") for _ in range(2))
    for page in (here, there):
        type_prompt(page, PROMPTS[0])
    start(here)
    before = there.locator(".token-view").get_attribute("data-id")
    there.click("#run")
    wait_for_status(there, "Another run")
    there.wait_for_timeout(300)
    began = time.perf_counter()
    leave(here)
    there.wait_for_function(NEW_RUN, arg=before)
    took = time.perf_counter() - began
    there.click("#stop")
    for page in (here, there):
        page.context.close()
    return took


def three_visitors(browser: Browser, url: str) -> None:
    """Three prompts at once by three methods, and the same ones alone: the texts must agree."""
    methods = ("moa-n1", "eagle2", "vanilla")
    address = "{}?tab=live&method={}&tokens=128"
    pages = [opened(browser, address.format(url, method)) for method in methods]
    for page, prompt in zip(pages, PROMPTS, strict=True):
        type_prompt(page, prompt)
    alone = []
    for page in pages:
        start(page)
        finish(page)
        alone.append(page.evaluate(KEPT))
    before = [page.locator(".token-view").get_attribute("data-id") for page in pages]
    began = time.perf_counter()
    for page in pages:
        page.click("#run")
    for page, old in zip(pages, before, strict=True):
        page.wait_for_function(NEW_RUN, arg=old)
        finish(page)
    took = time.perf_counter() - began
    for page, method, text in zip(pages, methods, alone, strict=True):
        same = "the same text as alone" if page.evaluate(KEPT) == text else "ANOTHER TEXT"
        print(f"three at once, {label(method)}: {same}")
    print(f"three at once: {took:.1f} s in all")


if __name__ == "__main__":
    main()
