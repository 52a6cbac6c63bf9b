"""Times the bundled drafters in a Chromium of this machine: `python -m tests.device.bench --help`.

The server is a thread of this process. The link's delay is added in the browser.
"""

from __future__ import annotations

import argparse
from functools import cache
from statistics import median
from typing import Any

import torch
from playwright.sync_api import Page as Tab
from playwright.sync_api import sync_playwright

from demo.device.endpoint import Device
from moa_core.bench.link import EACH
from moa_core.bench.results import aligned
from moa_core.bench.run import SAME
from moa_core.bench.suites import load_suite, suite_ids
from moa_core.loading.load import load_drafter, load_target
from tests.conftest import CHROMIUM
from tests.device.driver import kinds, run
from tests.device.twins import serving

HEAD = (
    "round trip", "method", "ms/token", "tokens/s", "ms/token ahead", "ready", "ms/level",
    "up", "down",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtt", nargs="+", type=float, default=[0, 40, 150], help="ms added")
    parser.add_argument("--methods", nargs="+", default=["moa-n0", "moa-n3", "eagle2"])
    parser.add_argument("--limit", type=int, default=EACH, help="prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    given = parser.parse_args()
    torch.set_num_threads(1)
    target = load_target()
    prompts = suite_ids(load_suite("bundled", given.limit), target)
    drafters = cache(lambda name: load_drafter(name, target))
    with serving(Device(lambda: target, drafters)) as page, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.url)
        lines = [list(HEAD)]
        for name in given.methods:
            _runs(tab, name, prompts[:1], 0, False, given.max_new_tokens)  # fetched and compiled
        for rtt in given.rtt:
            for name in given.methods:
                waits, ahead = (
                    _runs(tab, name, prompts, rtt, on, given.max_new_tokens) for on in (False, True)
                )
                pace, quicker = (_pace(runs) for runs in (waits, ahead))
                lines.append(
                    [f"{rtt:g} ms", name, f"{pace:.1f}", f"{1e3 / pace:.0f}", f"{quicker:.1f}"]
                    + [f"{_ready(ahead):.0%}", f"{_level(waits):.1f}"]
                    + [f"{_bytes(waits, way):.0f}" for way in ("sent", "received")]
                )
        browser.close()
    print(aligned(lines, words=2))


def _runs(
    tab: Tab, name: str, prompts: list[list[int]], rtt: float, ahead: bool, count: int
) -> list[list[dict[str, Any]]]:
    """The events of a run for each prompt."""
    tree = {"depth": SAME.depth, "breadth": SAME.breadth, "budget": SAME.budget}
    link = {"delay": rtt / 2, "up": 0, "down": 0}
    shared = {"count": count, "tree": tree, "link": link, "ahead": ahead, "kind": "bf16"}
    return [run(tab, name, prompt=ids, **shared) for ids in prompts]


def _gained(runs: list[list[dict[str, Any]]]) -> int:
    return sum(len(one["emitted"]) for events in runs for one in kinds(events, "verified"))


def _pace(runs: list[list[dict[str, Any]]]) -> float:
    """ms for a token, from the first to the last."""
    spans = (
        kinds(events, "verified")[-1]["now"] - kinds(events, "prefilled")[0]["now"]
        for events in runs
        if kinds(events, "verified")
    )
    return float(sum(spans)) / _gained(runs)


def _level(runs: list[list[dict[str, Any]]]) -> float:
    """ms for a level of a tree, where it was drafted in its turn."""
    drafted = [one for events in runs for one in kinds(events, "drafted") if not one["early"]]
    return median(1e3 * one["seconds"] / one["levels"] for one in drafted if one["levels"])


def _ready(runs: list[list[dict[str, Any]]]) -> float:
    """Share of trees that were drafted while the answer was on its way."""
    drafted = [one["early"] for events in runs for one in kinds(events, "drafted")]
    return sum(drafted) / len(drafted)


def _bytes(runs: list[list[dict[str, Any]]], way: str) -> float:
    """For a token after the first, the prompt's own not counted."""
    total = 0
    for events in runs:
        if verified := kinds(events, "verified"):
            total += verified[-1]["bytes"][way] - kinds(events, "drafted")[0]["bytes"][way]
    return total / _gained(runs)


if __name__ == "__main__":
    main()
