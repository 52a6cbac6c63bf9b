"""Times the default target's drafters in a local Chromium: `python -m tests.device.bench --help`.

The server is a thread of this process. The link's delay is added in the browser.
"""

import argparse
from functools import cache
from statistics import median

import torch
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
    "round trip", "method", "ms/token", "tokens/s", "ms/level", "up", "down",
)  # fmt: skip
TREE = {"depth": SAME.depth, "breadth": SAME.breadth, "budget": SAME.budget}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtt", nargs="+", type=float, default=[0, 40, 150], help="ms added")
    parser.add_argument("--methods", nargs="+", default=["moa-n0", "moa-n3", "eagle2"])
    parser.add_argument("--limit", type=int, default=EACH, help="prompts of each kind")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    given = parser.parse_args()
    torch.set_num_threads(1)
    target = load_target()
    prompts = suite_ids(load_suite("tuning", given.limit), target)
    drafters = cache(lambda name: load_drafter(name, target))
    with serving(Device(lambda: target, drafters)) as page, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.url)

        def runs(name, prompts, rtt):
            """The events of a run for each prompt."""
            link = {"delay": rtt / 2, "up": 0, "down": 0}
            how = {"count": given.max_new_tokens, "tree": TREE, "link": link, "kind": "bf16"}
            return [run(tab, name, prompt=ids, **how) for ids in prompts]

        for name in given.methods:
            runs(name, prompts[:1], 0)  # fetched and compiled
        lines = [list(HEAD)]
        for rtt in given.rtt:
            for name in given.methods:
                lines.append([f"{rtt:g} ms", name, *_figures(runs(name, prompts, rtt))])
        browser.close()
    print(aligned(lines, words=2))


def _figures(waits):
    pace = _pace(waits)
    drafted = [one for events in waits for one in kinds(events, "drafted")]
    level = median(1e3 * one["seconds"] / one["levels"] for one in drafted if one["levels"])
    yield from (f"{pace:.1f}", f"{1e3 / pace:.0f}", f"{level:.1f}")
    yield from (f"{_bytes(waits, way):.0f}" for way in ("sent", "received"))


def _gained(runs):
    return sum(len(one["emitted"]) for events in runs for one in kinds(events, "verified"))


def _ends(runs):
    """The first and the last event of each run that has cycles."""
    return [(events, found[-1]) for events in runs if (found := kinds(events, "verified"))]


def _pace(runs):
    """ms for a token, from the first to the last."""
    spans = (last["now"] - kinds(events, "prefilled")[0]["now"] for events, last in _ends(runs))
    return sum(spans) / _gained(runs)


def _bytes(runs, way):
    """For a token after the first, the prompt's own not counted."""
    firsts = [(kinds(events, "drafted")[0], last) for events, last in _ends(runs)]
    return sum(last["bytes"][way] - first["bytes"][way] for first, last in firsts) / _gained(runs)


if __name__ == "__main__":
    main()
