"""The page on ZeroGPU, as far as a machine without one can show it: every run forks and pickles.

pytest -m slow tests/browser/test_lent_gpu.py
"""

import re
from pathlib import Path

import pytest

from tests.browser.conftest import running_app, visitor
from tests.browser.driving import KEPT, open_tab, run, status, type_number, wait_for_status
from tests.lent import spaces

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def lent_app(bundle, tmp_path_factory):
    """The app where GPUs are lent, and the file with its log."""
    log = tmp_path_factory.mktemp("lent") / "log.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(spaces.__file__).parent))
        patch.setenv("SPACES_ZERO_GPU", "true")
        patch.setenv("MOA_GPU_SECONDS", "300")
        patch.setenv("SPACE_ID", "someone/moa")
        patch.setenv("GRADIO_SSR_MODE", "True")  # as a Space sets it
        with running_app(bundle, log) as url:
            yield url, log


@pytest.fixture
def page(window, lent_app):
    with visitor(window, lent_app[0]) as opened:
        yield opened("", ready="#run:not([disabled])")


@pytest.fixture
def borrowed(lent_app):
    """Seconds that a GPU was borrowed for, one number a press, since the test began."""
    log = lent_app[1]
    start = len(log.read_text())
    yield lambda: [
        float(one) for one in re.findall(r"lent for ([\d.]+) s", log.read_text()[start:])
    ]
    assert "Traceback" not in log.read_text(), log.read_text()[-3000:]


def test_live_and_its_comparison(page, borrowed):
    assert "a GPU borrowed for each run" in page.inner_text("#machine")
    text = run(page, "Tell me a story.")
    assert len(text) > 100 and status(page).startswith("128 tokens in")
    page.click("#compare-plain")
    wait_for_status(page, "tokens are plain decoding’s")
    page.wait_for_selector("#run:not([disabled])")
    assert page.evaluate(KEPT) == text and len(borrowed()) == 2
    page.fill("#prompt textarea", "")
    page.click("#run")
    wait_for_status(page, "The prompt is empty")
    page.wait_for_selector("#run:not([disabled])")


def test_the_other_tabs(page, borrowed):
    open_tab(page, "Side by side")
    page.click("#compare-run")
    wait_for_status(page, "All 9 runs are done.", "compare-")
    assert page.locator(".race .text").count() == 3
    with page.expect_download() as download:
        page.click("#compare-csv")
    assert download.value.path().read_text().count("\n") == 4  # a head, and a line each
    open_tab(page, "TLI")
    page.click("#sweep-run")
    wait_for_status(page, "8 runs in", "sweep-")
    page.wait_for_selector("#sweep-run:not([disabled])")
    type_number(page, "#sweep-length", 256)
    type_number(page, "#sweep-repeats", 5)
    page.click("#sweep-run")
    page.wait_for_selector("#sweep-progress:has-text('Repeat 1 of 5')")
    page.click("#sweep-stop")
    wait_for_status(page, "You pressed Stop", "sweep-")
    open_tab(page, "Inside a cycle")
    page.click("#inside-example")
    page.wait_for_selector(".inside-view .node.bonus")
    page.click("#inside-look")
    wait_for_status(page, "Attention at cycle", "inside-")
    open_tab(page, "How it works")
    page.click("#how-draft-run")
    page.wait_for_selector("#how-draft-result table")
    assert len(borrowed()) == 6 and max(borrowed()) > 200 and min(borrowed()) == 16


def test_the_network_tab_stays_on_the_cpu_and_says_why(page, borrowed):
    open_tab(page, "Network")
    page.wait_for_selector("#net-status:has-text('so this tab runs on the CPU')")
    page.click("#net-run")
    wait_for_status(page, "Ended:", "net-")
    page.wait_for_selector("#net-compare:not([disabled])")
    page.click("#net-compare")
    wait_for_status(page, "there is nothing to compare", "net-")
    assert borrowed() == []


def test_the_endpoint(lent_app, borrowed):
    from gradio_client import Client

    (url, _), _ = lent_app
    text, figures = Client(url, verbose=False).predict("Tell me.", "moa-n1", 20, api_name="/decode")
    assert text and figures["tokens"] == 20 and figures["reason"] == "length"
    assert borrowed() == [16]
