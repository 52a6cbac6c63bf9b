"""Sized trees against fixed ones: the bundled models on held-out prompts, with a made-up clock.

Acceptance is real. Times are a model of those measured on two cores, so that the machine's hiccups
and whatever else it does decide nothing: `bench --tree best --grid ...,auto` takes real ones.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from torch import Tensor

from moa_core.bench.suites import load_suite, suite_ids
from moa_core.decoding import trace as trace_module
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import DraftTree, Frontier, TreeSettings, named_tree
from moa_core.drafters.base import Drafter, Stepwise
from moa_core.errors import UserError
from moa_core.loading.catalog import bundled_target
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target

FIXED = ("3-2-6", "3-3-8", "4-2-8", "4-3-10", "5-3-10", "5-4-12")
MILLISECONDS = {  # root and what comes before it, a level, each node of it: 2026-11-21, 4-core EPYC
    "eagle2": (0.95, 0.40, 0.033), "moa-n0": (1.55, 0.46, 0.070), "moa-n1": (2.1, 0.79, 0.066),
    "moa-n2": (2.1, 0.98, 0.070), "moa-n3": (2.3, 1.2, 0.070),
}  # fmt: skip
VERIFY, NODE = 3.65, 0.075  # with what is left of a cycle
PROMPTS = 3  # of each kind


class Clock:
    """Stands still, but for what it is told."""

    def __init__(self) -> None:
        self.now, self._dice = 0.0, random.Random(0)

    def __call__(self) -> float:
        return self.now

    def passes(self, milliseconds: float) -> None:
        self.now += 1e-3 * milliseconds * self._dice.uniform(1.0, 1.1)


def timed(drafter: Drafter, costs: tuple[float, float, float], time: Clock) -> Drafter:
    """The same drafter, whose work takes these times of the clock."""
    assert isinstance(drafter, Stepwise)
    kind: Any = type(drafter)

    class Timed(kind):
        def root(self, token: int) -> Tensor:
            time.passes(costs[0])
            return super().root(token)

        def expand(self, frontier: Frontier) -> Tensor:
            time.passes(costs[1] + costs[2] * len(frontier.tokens))
            return super().expand(frontier)

    drafter.__class__ = Timed
    drafter.sizer.clock = time
    return drafter


def speed(target: Target, drafter: Drafter, prompts: list[list[int]], tree: TreeSettings) -> float:
    """Tokens per second of that clock."""
    tokens, seconds = 0, 0.0
    for ids in prompts:
        settings = Settings(128, tree, eos_ids=target.eos_ids)
        trace = Trace(events=list(decode(target, drafter, ids, settings)))
        tokens += len(trace.output_ids) - 1
        seconds += sum(spent for phase, spent in trace.seconds.items() if phase != "prefill")
    return tokens / seconds


@pytest.mark.slow
@pytest.mark.parametrize("method", MILLISECONDS)
def test_sized_trees_are_as_fast_as_the_best_fixed_one(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        target = load_target(bundled_target(), "float32", "cpu")
    except UserError as error:
        pytest.skip(str(error))
    time, verify = Clock(), Target.verify

    def verified(self: Target, tree: DraftTree) -> Tensor:
        time.passes(VERIFY + NODE * len(tree))
        return verify(self, tree)

    monkeypatch.setattr(trace_module, "perf_counter", time)
    monkeypatch.setattr(Target, "verify", verified)
    drafter = timed(load_drafter(method, target), MILLISECONDS[method], time)
    prompts = suite_ids(load_suite("bundled", PROMPTS), target)
    found = {name: speed(target, drafter, prompts, named_tree(name)) for name in (*FIXED, "auto")}
    best = max(FIXED, key=lambda name: found[name])
    print(f"\n{method}: auto {found['auto'] / found[best]:.3f} of {best}, the best fixed tree")
    assert found["auto"] >= 0.97 * found[best]
