"""Times the default target's drafters in a local Chromium: `python -m tests.device.bench --help`.

The server is a thread of this process. The link's delay is added in the browser.
"""

import argparse
from functools import cache
from statistics import median

import psutil
import torch
from playwright.sync_api import sync_playwright

from demo.device.endpoint import Device
from moa_core.bench.link import EACH
from moa_core.bench.results import aligned
from moa_core.bench.run import SAME
from moa_core.bench.suites import load_suite, suite_ids
from moa_core.loading.load import load_drafter, load_target
from tests.conftest import CHROMIUM
from tests.device.driver import check_trees, kinds, run
from tests.device.twins import serving

SPEEDS = ("round trip", "method", "ms/token", "tokens/s", "ms/level", "up", "down")
STARTS = (
    "method", "MB", "first draft cold, s", "warm, s", "MB of memory", "alone, tokens/s", "trees",
    "near ties",
)  # fmt: skip
TREE = {"depth": SAME.depth, "breadth": SAME.breadth, "budget": SAME.budget}
CUT = [{"after": "verified", "times": 3, "act": "cut"}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtt", nargs="*", type=float, default=[0, 40, 150], help="ms added")
    parser.add_argument("--methods", nargs="+", default=["moa-n0", "eagle2"])
    parser.add_argument("--limit", type=int, default=EACH, help="prompts of each kind")
    parser.add_argument("--prompts", type=int, help="no more of them in all")
    parser.add_argument("--trees", type=int, default=0, help="prompts to compare with Python")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    given = parser.parse_args()
    torch.set_num_threads(1)
    target = load_target()
    prompts = suite_ids(load_suite("tuning", given.limit), target)[: given.prompts]
    drafters = cache(lambda name: load_drafter(name, target))
    with serving(Device(lambda: target, drafters)) as page, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])

        def opened():
            tab = browser.new_page()
            tab.goto(page.url)
            return tab

        def runs(name, prompts, rtt, plan=(), **more):
            link = {"delay": rtt / 2, "up": 0, "down": 0}
            how = {"count": given.max_new_tokens, "tree": TREE, "link": link, "kind": "bf16"}
            return [run(tab, name, plan, prompt=ids, **how | more) for ids in prompts]

        lines = [list(STARTS)]
        for name in given.methods:
            tab = opened()
            before = _memory()
            cold = runs(name, prompts[:1], 0, ends=False)  # its worker stays
            held = _memory() - before
            tab.evaluate("worker.terminate()")
            warm = runs(name, prompts[:1], 0, CUT, patience=0)
            # Seconds from the worker's start to the first draft.
            firsts = [kinds(one[0], "drafted")[0]["now"] / 1e3 for one in (cold, warm)]
            alone = [one["seconds"] for one in kinds(warm[0], "offline token")]
            size = kinds(cold[0], "facts")[0]["left"]
            pairs = [
                check_trees(tab, target, drafters(name), ids, SAME, given.max_new_tokens, "bf16")
                for ids in prompts[: given.trees]
            ]
            trees, ties = sum(len(trees) for trees, _ in pairs), sum(ties for _, ties in pairs)
            lines.append([name, f"{size / 1e6:.1f}", *(f"{one:.1f}" for one in firsts)])
            lines[-1] += [f"{held:.0f}", f"{len(alone) / sum(alone):.0f}", str(trees), str(ties)]
            tab.close()
        print(aligned(lines, words=1), flush=True)
        lines, tab = [list(SPEEDS)], opened()
        for rtt in given.rtt:
            for name in given.methods:
                lines.append([f"{rtt:g} ms", name, *_figures(runs(name, prompts, rtt))])
        browser.close()
    print(aligned(lines, words=2))


def _memory():
    """MB of the processes that run this browser's pages, without what they share."""
    below = psutil.Process().children(recursive=True)
    pages = [one for one in below if "--type=renderer" in one.cmdline()]
    return sum(one.memory_full_info().uss for one in pages) / 1e6


def _figures(runs):
    """ms for a token, from the first to the last; and the bytes each way for a token after the
    first, the prompt's own not counted."""
    ends = [(events, found[-1]) for events in runs if (found := kinds(events, "verified"))]
    gained = sum(len(one["emitted"]) for events in runs for one in kinds(events, "verified"))
    spans = (last["now"] - kinds(events, "prefilled")[0]["now"] for events, last in ends)
    pace = sum(spans) / gained
    drafted = [one for events in runs for one in kinds(events, "drafted")]
    level = median(1e3 * one["seconds"] / one["levels"] for one in drafted if one["levels"])
    yield from (f"{pace:.1f}", f"{1e3 / pace:.0f}", f"{level:.1f}")
    firsts = [(kinds(events, "drafted")[0]["bytes"], last["bytes"]) for events, last in ends]
    for way in ("sent", "received"):
        yield f"{sum(last[way] - first[way] for first, last in firsts) / gained:.0f}"


if __name__ == "__main__":
    main()
