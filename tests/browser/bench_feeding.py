"""What feeding the page costs: tokens per second of wall time on the page and without it.

    python -m tests.browser.bench_feeding

Runs the app on the real bundle with a real Chromium that watches, and the same prompts in the bare
decode loop, in turn. Prints both speeds and their ratio; needs a quiet machine.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from playwright.sync_api import Browser, Page, sync_playwright

from demo.common.prompt import EXAMPLES
from demo.engine import Engine, Request
from moa_core.decoding.trace import Prefilled
from tests.browser.conftest import CHROMIUM, ROOT
from tests.browser.driving import DONE, NEW_RUN

PROMPTS = [EXAMPLES[name] for name in ("Story", "Story from words")]
PASSES, TOKENS, THREADS = 4, 256, 2
TILE = ".token-view .tile:has(dt:text-is('Target calls')) .note"
# Milliseconds from the first tokens on the page to the last.
WATCH = """() => {
  const view = document.querySelector('.token-view');
  window.fed = null;
  const old = view.getAttribute('data-id');
  let first = null;
  new MutationObserver((_, observer) => {
    if (view.getAttribute('data-id') === old) return;
    first ??= performance.now();
    if (view.dataset.state !== 'done') return;
    window.fed = performance.now() - first;
    observer.disconnect();
  }).observe(view, { attributes: true });
}"""


def main() -> None:
    """Measure both, and print."""
    torch.set_num_threads(THREADS)
    engine = Engine()
    bare, fed = [], []
    with real_app() as url, a_browser() as browser:
        page = browser.new_page()
        page.goto(f"{url}?tab=live&tokens={TOKENS}")
        page.wait_for_selector("#machine:has-text('Target')")
        for turn in range(PASSES + 1):  # the first warms both up
            for prompt in PROMPTS:
                speeds = without_page(engine, prompt), on_page(page, prompt)
                if turn:
                    bare.append(speeds[0])
                    fed.append(speeds[1])
    one, other = statistics.median(bare), statistics.median(fed)
    print(f"{one:.1f} tokens/s in the bare loop, {other:.1f} on the page: {other / one:.3f}")


@contextmanager
def real_app() -> Iterator[str]:
    """The app on the bundle that comes with the project, as a process: its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {"OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "app.py", "--port", str(port)]
    app = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/")
        yield f"http://127.0.0.1:{port}/"
    finally:
        app.terminate()
        app.wait(20)


@contextmanager
def a_browser() -> Iterator[Browser]:
    """A Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def wait_for(url: str) -> None:
    """Until the page answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(240):
        try:
            opener.open(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.25)
    raise SystemExit("the app did not start")


def without_page(engine: Engine, prompt: str) -> float:
    """Tokens per second of wall time after the first token, events consumed and nothing shown."""
    run = engine.prepare(Request(prompt, max_new_tokens=TOKENS))
    for event in run.events:
        if isinstance(event, Prefilled):
            first = time.perf_counter()
    return (len(run.trace.output_ids) - 1) / (time.perf_counter() - first)


def on_page(page: Page, prompt: str) -> float:
    """Tokens per second of wall time from the first tokens painted to the last."""
    page.fill("#prompt textarea", prompt)
    page.wait_for_selector("#run:not([disabled])")
    before = page.locator(".token-view").get_attribute("data-id")
    page.evaluate(WATCH)
    page.click("#run")
    page.wait_for_function(NEW_RUN, arg=before)
    page.wait_for_function(DONE)
    page.wait_for_function("() => window.fed !== null")
    tokens = int(page.inner_text(TILE).split()[1])
    return (tokens - 1) / (page.evaluate("window.fed") / 1000)


if __name__ == "__main__":
    main()
