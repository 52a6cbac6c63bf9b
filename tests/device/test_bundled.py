"""The bundled drafters in the browser: their trees, and what they answer alone."""

from collections import Counter
from functools import cache

import pytest

from demo.device.endpoint import Device
from moa_core.bench.offline import alone, task_items
from moa_core.bench.suites import load_suite, suite_ids
from moa_core.decoding.tree import TreeSettings
from moa_core.loading.load import load_drafter, load_target
from tests.device.driver import check_trees, run
from tests.device.twins import serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EACH = 10  # prompts of each of five kinds
TASKS = 32  # of each of six kinds
TREE = TreeSettings(5, 4, 11)
MOST = 64  # tokens of an answer
SLOW = {"delay": 60, "up": 0, "down": 0}  # so that a cut comes before the answer


@pytest.fixture(scope="module")
def target():
    return load_target()


@pytest.fixture(scope="module")
def drafters(target):
    return cache(lambda name: load_drafter(name, target))


@pytest.fixture(scope="module")
def served(target, drafters):
    with serving(Device(lambda: target, drafters)) as page:
        yield page


@pytest.mark.parametrize("name", ["moa-n0", "moa-n1", "moa-n3", "eagle2"])
def test_trees_of_fifty_prompts(name, target, drafters, served, blank):
    page, found = blank(served), Counter()
    for ids in suite_ids(load_suite("bundled", EACH), target):
        learnt, ties = check_trees(page, target, drafters(name), ids, TREE, 24)
        found += Counter(prompts=1, trees=len(learnt), ties=ties, tokens=sum(learnt) - len(ids))
    print(name, dict(found))
    assert found["prompts"] == 50 and found["ties"] <= found["trees"] / 100


@pytest.mark.parametrize("name", ["moa-n0", "moa-n3"])
def test_answers_alone_are_as_often_right_as_pythons(name, target, drafters, served, blank):
    """Cut off for good after the first token of the target."""
    page, right = blank(served), Counter()
    items = task_items(target, TASKS)
    plan = [{"after": "drafted", "times": 1, "act": "cut"}]
    for item in items:
        last = run(page, name, plan, count=MOST, prompt=item.ids, patience=0, link=SLOW)[-1]
        assert last["reason"] == "offline" and len(last["ids"]) == 1
        python = last["ids"] + alone(target, drafters(name), item.ids, MOST)
        browser = last["ids"] + last["alone"]
        for where, ids in (("browser", browser), ("python", python)):
            right[where] += item.judge(target.tokenizer.decode(ids, skip_special_tokens=True))
        right["same text"] += browser == python
    print(name, f"of {len(items)}", dict(right))
    assert abs(right["browser"] - right["python"]) <= 0.02 * len(items)
