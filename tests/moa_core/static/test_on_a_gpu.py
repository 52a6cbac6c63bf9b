"""Real CUDA graphs: `pytest -m cuda tests/moa_core/static`. The 8B one takes 20 GB and minutes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from moa_core.bench.profile import random_drafter, random_target
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling, compare_with_plain
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.model.target import Target
from moa_core.static.buffers import Nodes
from moa_core.static.cycle import Cycle, Verification
from moa_core.static.replay import Graphs
from moa_core.static.run import GraphTarget
from tests.models import tiny_target, useful

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
METHODS = ("vanilla", "moa-n0", "moa-n1", "moa-n3", "eagle2")
PROMPTS = ([7], [5, 9, 33, 7, 21, 40, 11], [(i * i + 3) % 60 for i in range(40)])
NEAR_TIE = {"float32": 1e-3, "bfloat16": 0.5}  # of logits six apart on the average


def pair(method: str, dtype: str = "float32") -> tuple[GraphTarget, Drafter]:
    target = tiny_target(
        vocab_size=61, hidden_size=128, intermediate_size=256, max_position_embeddings=4096
    )
    drafter = Vanilla() if method == "vanilla" else useful(method, target)
    form = getattr(torch, dtype)
    target.model.to("cuda", form)
    if method != "vanilla":
        drafter.net.to("cuda", form)
    return GraphTarget(Target(target.model, name="tiny")), drafter


def plainly(target: Target) -> Target:
    """The same weights, for plain runs."""
    twin = Target.__new__(Target)
    vars(twin).update(vars(target))
    return twin


def run(target: Target, drafter: Drafter, prompt: list[int], count: int, **how: Any) -> Trace:
    return Trace(events=list(decode(target, drafter, prompt, Settings(count, **how))))


@pytest.mark.parametrize("dtype", NEAR_TIE)
@pytest.mark.parametrize("method", METHODS)
def test_graphs_write_what_the_eager_way_writes(method: str, dtype: str) -> None:
    target, drafter = pair(method, dtype)
    for tree in (TreeSettings(4, 3, 8), TreeSettings(6, 8, 62)):
        for prompt, count in zip(PROMPTS, (200, 200, 1100), strict=True):  # over a bucket's end
            ours = run(target, drafter, prompt, count, tree=tree)
            eager = run(plainly(target), drafter, prompt, count, tree=tree)
            found = compare_with_plain(target, prompt, ours.output_ids, eager.output_ids)
            assert found.same or abs(found.gap or 0) < NEAR_TIE[dtype], (tree, found)
    for place in target.pool:
        for cycle in place.cycles.values():
            assert isinstance(cycle.player, Graphs) and not cycle.player.failed


def test_sampled_text_is_the_same_for_a_seed() -> None:
    texts = []
    for method in METHODS:
        target, drafter = pair(method)
        for draws in (Sampling(0.8, seed=3), Sampling(1.1, 0.9, 20, seed=4)):
            for one in (target, plainly(target)):
                texts.append(run(one, drafter, PROMPTS[1], 80, sampling=draws).output_ids)
    assert all(text == texts[place % 4 // 2 * 2] for place, text in enumerate(texts))


@pytest.mark.parametrize("method", METHODS)
def test_the_device_is_waited_for_twice_a_cycle(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everything captured, whatever waits but for the tree and the answer is an error."""
    target, drafter = pair(method)
    run(target, drafter, PROMPTS[1], 60)
    told: list[Any] = []

    def strict(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def watched(self: Any, *given: Any) -> Any:
            torch.cuda.set_sync_debug_mode("error")
            try:
                return real(self, *given)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        monkeypatch.setattr(owner, name, watched)

    def allowed(owner: type) -> None:
        real = owner.tell

        def watched(self: Any) -> Any:
            torch.cuda.set_sync_debug_mode("default")
            told.append(self)
            return real(self)

        monkeypatch.setattr(owner, "tell", watched)

    strict(Cycle, "draft")
    strict(Cycle, "verify")
    allowed(Nodes)
    allowed(Verification)
    trace = run(target, drafter, PROMPTS[1], 60)
    assert len(told) == len(trace.cycles) * (1 if method == "vanilla" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vanilla", "moa-n0", "moa-n3", "eagle2"])
def test_memory_of_a_long_text_at_8b(method: str) -> None:
    """Weights, drafter, all K and V, and 15 % more: what torch held at most."""
    target = GraphTarget(random_target("llama3-8b", 8192, "bfloat16", "cuda"))
    drafter = random_drafter(method, target, "llama3-8b")
    tree = TreeSettings(6, 8, 62)
    run(target, drafter, [1, 2, 3], 8, tree=tree)  # matrices are joined now
    target.pool.clear()
    torch.cuda.empty_cache()
    weights = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run(target, drafter, [place % 1000 for place in range(8000)], 40, tree=tree)
    (place,) = target.pool
    keys_values = place.slots.whole.nbytes
    assert torch.cuda.max_memory_allocated() < 1.15 * (weights + keys_values)
