"""Draft trees verified in fixed shapes: the same text as plain runs, on a processor as on a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling, compare_with_plain
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.engine import cuda, with_graphs
from moa_core.engine.cuda import GraphTarget
from moa_core.model.target import Target
from tests.models import plain_greedy, tiny_target, useful

PROMPTS = ([7], [5, 9, 33, 7, 21, 40, 11], [(i * i + 3) % 60 for i in range(40)])
METHODS = ("vanilla", "moa-n0", "moa-n3", "eagle2", "eagle3", "medusa", "independent")
needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "STEP", 32)  # a text of a hundred tokens crosses several


def tiny(**sizes: Any) -> GraphTarget:
    return GraphTarget(tiny_target(**{"vocab_size": 61, **sizes}), capture=False)


def drafter_for(method: str, target: Target) -> Drafter:
    return Vanilla() if method == "vanilla" else useful(method, target)


def plainly(target: Target) -> Target:
    """The same weights, for plain runs."""
    twin = Target.__new__(Target)
    vars(twin).update(vars(target))
    return twin


def run(target: Target, drafter: Drafter, prompt: list[int], count: int, **how: Any) -> Trace:
    return Trace(events=list(decode(target, drafter, prompt, Settings(count, **how))))


def check(target: Target, drafter: Drafter, prompt: list[int], count: int, **how: Any) -> Trace:
    """The same trees, choices and text as without fixed shapes."""
    ours, other = (run(one, drafter, prompt, count, **how) for one in (target, plainly(target)))
    assert (ours.output_ids, ours.reason) == (other.output_ids, other.reason)
    for (drafted, seen), (same, known) in zip(ours.cycles, other.cycles, strict=True):
        assert drafted.tree.tokens == same.tree.tokens and seen.choices == known.choices
        assert seen.choice_probs == pytest.approx(known.choice_probs, abs=1e-4)
    return ours


@pytest.mark.parametrize("method", METHODS)
def test_texts_over_several_steps(method: str) -> None:
    target = tiny()
    drafter, accepted = drafter_for(method, target), 0
    for prompt in PROMPTS:
        trace = check(target, drafter, prompt, 60, tree=TreeSettings(4, 3, 10))
        accepted += sum(len(event.path) for _, event in trace.cycles)
    assert method in ("vanilla", "eagle3", "medusa") or accepted > 20


@pytest.mark.parametrize(
    "sizes",
    [
        {"family": "qwen3", "head_dim": 12},
        {"attention_bias": True, "mlp_bias": True},
        {"hidden_act": "gelu"},  # through transformers' own layers
    ],
    ids=["qwen3", "biases", "not of our form"],
)
def test_other_targets_and_sampling(sizes: dict[str, Any]) -> None:
    target = tiny(scale=2.0, **sizes)
    drafter = drafter_for("moa-n1", target)
    for sampling in (Sampling(), Sampling(0.8, seed=3), Sampling(1.1, 0.9, 20, seed=4)):
        check(target, drafter, PROMPTS[1], 16, sampling=sampling)


def test_trees_that_size_themselves_and_the_end_of_the_context() -> None:
    target = tiny(max_position_embeddings=60)
    drafter = drafter_for("eagle2", target)
    ours = run(target, drafter, PROMPTS[2], 90, tree=AUTO)
    assert ours.reason == "context" and len(ours.output_ids) == 20
    assert ours.output_ids == plain_greedy(target, PROMPTS[2], 20)


def test_caches_are_used_again() -> None:
    target = tiny()
    drafter = drafter_for("moa-n1", target)
    for _ in range(3):
        run(target, drafter, PROMPTS[1], 14)
    assert len(target.pool) == 1
    first = target.pool[0]
    check(target, drafter, PROMPTS[2], 120)  # needs a larger one
    assert len(target.pool) == 1 and target.pool[0] is not first


def test_two_runs_at_once_have_a_cache_each() -> None:
    target = tiny()
    runs = [decode(target, Vanilla(), PROMPTS[place], Settings(30)) for place in range(2)]
    traces = [Trace(), Trace()]
    for _ in range(100):
        for trace, events in zip(traces, runs, strict=True):
            trace.events += [event for event in [next(events, None)] if event is not None]
    for trace, prompt in zip(traces, PROMPTS, strict=False):
        assert trace.output_ids == plain_greedy(target, prompt, 30)
    assert len(target.pool) == 2


def test_what_cannot_be_captured_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **how: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", refuse)
    monkeypatch.setattr(torch.cuda, "device_of", lambda tensor: nullcontext())
    target = GraphTarget(tiny_target(vocab_size=61))
    with pytest.warns(RuntimeWarning, match="cannot be captured as a CUDA graph .operation not"):
        ours = run(target, Vanilla(), PROMPTS[1], 20)
    assert ours.output_ids == plain_greedy(target, PROMPTS[1], 20)


def test_without_a_gpu_there_are_no_graphs() -> None:
    target = tiny_target(vocab_size=61)
    assert with_graphs(target) is target


@pytest.mark.cuda
@needs_a_gpu
@pytest.mark.parametrize(("dtype", "near_tie"), [("float32", 1e-3), ("bfloat16", 0.5)])
@pytest.mark.parametrize("method", METHODS)
def test_real_graphs_write_what_plain_runs_write(
    method: str, dtype: str, near_tie: float, recwarn: pytest.WarningsRecorder
) -> None:
    target = tiny_target(vocab_size=61, hidden_size=128, max_position_embeddings=4096)
    drafter = drafter_for(method, target)
    form = getattr(torch, dtype)
    target.model.to("cuda", form)
    if method != "vanilla":
        drafter.net.to("cuda", form)
    quick = with_graphs(Target(target.model, name="tiny"))
    assert isinstance(quick, GraphTarget)
    for tree in (TreeSettings(4, 3, 8), TreeSettings(6, 8, 62)):
        for prompt, count in zip(PROMPTS, (200, 200, 1100), strict=True):
            ours = run(quick, drafter, prompt, count, tree=tree)
            plain = run(plainly(quick), drafter, prompt, count, tree=tree)
            found = compare_with_plain(quick, prompt, ours.output_ids, plain.output_ids)
            assert found.same or abs(found.gap or 0) < near_tie, (tree, found)
    assert not [one for one in recwarn if "captured" in str(one.message)]
