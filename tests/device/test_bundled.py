"""The bundled drafters in the browser: their trees, and what they answer alone."""

from collections import Counter
from functools import cache

import pytest

from demo.device.endpoint import Device
from moa_core.bench.suites import load_suite, suite_ids
from moa_core.decoding.tree import TreeSettings
from moa_core.loading.load import load_drafter, load_target
from tests.device.driver import check_trees
from tests.device.twins import serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EACH = 10  # prompts of each of five kinds
TREE = TreeSettings(5, 4, 11)


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
