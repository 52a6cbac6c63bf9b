"""Several visitors: at once, and by files and links."""

import json
from urllib.parse import urlsplit

from tests.browser.driving import (
    DONE,
    FILES,
    KEPT,
    LANE,
    NEW_RUN,
    RUN,
    SMALL_RUN,
    figure,
    finish,
    run,
    saved,
    settings,
    start,
    wait_for_status,
)

ADDRESS, READY = SMALL_RUN, RUN
METHODS = ("moa-n1", "eagle2", "vanilla")
THEIRS = "?tab=live&method={}&tokens=24&temperature=1.5&seed={}"
LINKED = "() => document.querySelector('#link textarea').value.startsWith('http')"
HOLDS = "([id, value]) => document.querySelector(`#${id} input[type=number]`)?.value === value"


def test_a_trace_and_a_link_bring_a_run_to_another_visitor(page, open_page, tmp_path):
    page.fill("#prompt textarea", "A fox & a hen? 100 % ${6*7} <b>é</b>")
    settings(page, tokens=33, depth=2, seed=7)
    written, path = run(page), tmp_path / "trace.json"
    assert json.loads(saved(page, path))["about"]["method"] == "moa-n0"
    page.click("#share")
    page.wait_for_function(LINKED)
    link = urlsplit(page.locator("#link textarea").input_value())
    other = open_page(f"?{link.query}", ready=RUN)
    other.get_by_role("button", name="Draft tree, sampling and length").click()
    for name, value in {"tokens": "33", "depth": "2", "seed": "7"}.items():
        other.wait_for_function(HOLDS, arg=[name, value])
    assert run(other) == written
    other.get_by_role("button", name=FILES).click()
    other.set_input_files("#open", path)
    wait_for_status(other, "Opened: MoA N=0 for tiny")
    other.wait_for_function(DONE)
    assert other.evaluate(KEPT) == written and figure(other, "calls") == figure(page, "calls")


def test_a_file_that_is_no_trace_ends_a_run_and_takes_nothing_away(open_page, tmp_path):
    page, path = open_page(ADDRESS, ready=RUN), tmp_path / "trace.json"
    path.write_text("{}")
    run(page)
    assert saved(page, tmp_path / "kept.json")  # which opens the box of files
    page.set_input_files("#open", path)
    wait_for_status(page, "not a trace of this program")
    with page.expect_download():
        page.click("#save")
    settings(page, tokens=512, depth=12, breadth=16, budget=64)
    start(page)
    page.set_input_files("#open", path)
    wait_for_status(page, "not a trace of this program")
    finish(page)
    assert page.get_attribute("#stage", "data-run") == "stopped"


def test_three_visitors_at_once_get_their_own_texts(open_page):
    """Seeds differ, so each one's text is another; methods differ, so runs take turns unevenly."""
    pages = [open_page(THEIRS.format(method, seed)) for seed, method in enumerate(METHODS)]
    alone = []
    for number, page in enumerate(pages):
        page.bring_to_front()  # one behind another is painted once a second
        page.wait_for_selector(RUN)
        alone.append(run(page, f"Visitor {number}: once upon a time"))
    assert len(set(alone)) == 3
    before = [page.locator(LANE).get_attribute("data-id") for page in pages]
    for page in pages:
        page.evaluate("document.querySelector('#run').click()")
    for page, old in zip(pages, before, strict=True):
        page.bring_to_front()
        page.wait_for_function(NEW_RUN, arg=old)
        finish(page)
    assert [page.evaluate(KEPT) for page in pages] == alone
