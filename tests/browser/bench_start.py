"""How long the app takes to be there: from `python app.py` to the page, and to the first token.

    taskset -c 0,1 python -m tests.browser.bench_start

Starts the app on the real bundle several times, with two threads. A Chromium that runs already asks
for the page until it answers; a run of the default prompt is begun as soon as the page lets it.
Prints the median and the worst of: the address answers, first paint, first token on the page. Needs
a quiet machine; the first start, which fills the disk's cache, does not count.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser

from tests.browser.bench_feeding import THREADS, a_browser
from tests.browser.bench_page import PAINT, report
from tests.browser.conftest import ROOT
from tests.browser.driving import NEW_RUN

GOES = 5
WHAT = ("the address answers", "first paint", "first token")


def main() -> None:
    """Measure, and print."""
    with a_browser() as browser:
        starts = [one_start(browser) for _ in range(GOES + 1)][1:]
    for name, seconds in zip(WHAT, zip(*starts, strict=True), strict=True):
        report(f"from the command to: {name}", list(seconds))


def one_start(browser: Browser) -> tuple[float, float, float]:
    """Seconds from starting the app until each of WHAT."""
    with starting_app() as (url, began):
        wait_for_answer(url)
        answers = time.perf_counter() - began
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.goto(url)
        page.wait_for_function(PAINT)
        since = page.evaluate(f"performance.now() - ({PAINT})()") / 1000
        painted = time.perf_counter() - began - since
        page.wait_for_selector("#run:not([disabled])")
        before = page.locator(".token-view").get_attribute("data-id")
        page.click("#run")
        page.wait_for_function(NEW_RUN, arg=before)
        first = time.perf_counter() - began
        page.context.close()
    return answers, painted, first


def wait_for_answer(url: str) -> None:
    """Until the page's address answers, asked often."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(6000):
        try:
            return opener.open(url, timeout=5).close()
        except OSError:
            time.sleep(0.01)
    raise SystemExit("the app did not start")


@contextmanager
def starting_app() -> Iterator[tuple[str, float]]:
    """The app, just started: its address to be, and when that was."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {"OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "app.py", "--port", str(port)]
    began = time.perf_counter()
    app = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/", began
    finally:
        app.terminate()
        app.wait(20)


if __name__ == "__main__":
    main()
