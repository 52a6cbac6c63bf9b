"""Static shapes write what the eager way writes, piece by piece from tapes."""

from typing import Any

import pytest
import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.eagle import EagleDrafter
from moa_core.model.target import Target
from moa_core.static.players import PLAYERS, NotCaptured, Piece, Tapes
from moa_core.static.verifying import Verification
from tests.models import plain_greedy, tiny_target, useful

PROMPTS = ([7], [5, 9, 33, 7, 21, 40, 11], [(i * i + 3) % 60 for i in range(40)])
TREES = {
    "usual": TreeSettings(4, 3, 8),
    "wide": TreeSettings(6, 8, 62),
    "chain": TreeSettings(4, 1, 4),
    "one level": TreeSettings(1, 4, 4),
    "more than was tried": TreeSettings(2, 3, 1000),
    "breadth above the vocabulary": TreeSettings(2, 64, 60),
}


def drafter_for(method: str, target: Target) -> Drafter:
    return Vanilla() if method == "vanilla" else useful(method, target)


def run(target: Target, drafter: Drafter, prompt: list[int], **settings: Any) -> Trace:
    return Trace(events=list(decode(target, drafter, prompt, Settings(**settings))))


def shapes(trace: Trace) -> list[Any]:
    """What must be the same to the last node, numbers of probability aside."""
    return [
        (
            drafted.tree.tokens,
            drafted.tree.parents,
            drafted.tree.depths,
            drafted.position,
            seen.path,
        )
        for drafted, seen in trace.cycles
    ]


def check(target: Target, drafter: Drafter, prompt: list[int], **settings: Any) -> Trace:
    ours = run(target, drafter, prompt, **settings)
    eager = run(target.eager(), drafter, prompt, **settings)
    assert ours.output_ids == eager.output_ids
    assert ours.reason == eager.reason
    assert shapes(ours) == shapes(eager)
    for (one, seen), (other, known) in zip(ours.cycles, eager.cycles, strict=True):
        assert one.tree.log_probs == pytest.approx(other.tree.log_probs, abs=1e-3)
        assert seen.choices == known.choices and seen.emitted == known.emitted
        assert seen.choice_probs == pytest.approx(known.choice_probs, abs=1e-3)
        assert seen.draft_probs == pytest.approx(known.draft_probs, abs=1e-3)
        assert one.tli == other.tli
    return ours


@pytest.mark.parametrize("method", ["vanilla", "moa-n1", "moa-n3", "eagle2"])
def test_long_texts_over_several_buckets(method: str, taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    drafter, accepted = drafter_for(method, target), 0
    for prompt in PROMPTS[::2]:
        trace = check(target, drafter, prompt, max_new_tokens=70, tree=TREES["usual"])
        accepted += sum(len(event.path) for _, event in trace.cycles)
    keys = {key[1] for player in taped for key in player.tapes if key[0] == "verify"}
    assert len(keys) > 2 and sum(player.replays for player in taped) > 60
    assert method == "vanilla" or accepted > 20


@pytest.mark.parametrize("tree", TREES)
def test_trees_of_every_shape(tree: str, taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    for method in ("moa-n0", "eagle2"):
        check(target, drafter_for(method, target), PROMPTS[1], max_new_tokens=16, tree=TREES[tree])
    assert taped[0].replays and taped[1].replays


@pytest.mark.parametrize(
    "sizes",
    [
        {"family": "qwen2"},
        {"family": "qwen3", "head_dim": 12},
        {"attention_bias": True, "mlp_bias": True},
        {"tie_word_embeddings": True, "vocab_size": 40, "scale": 2.0},
        {"hidden_act": "gelu"},  # through transformers' own layers
    ],
    ids=["qwen2", "qwen3", "biases", "tied", "not of our form"],
)
def test_other_targets(sizes: dict[str, Any], taped: list[Tapes]) -> None:
    target = tiny_target(**sizes)
    prompt = [token % target.config.vocab_size for token in PROMPTS[1]]
    for method in ("vanilla", "moa-n1", "eagle2"):
        trace = check(target, drafter_for(method, target), prompt, max_new_tokens=14)
        assert trace.output_ids == plain_greedy(target, prompt, 14)
    assert all(player.replays for player in taped)


@pytest.mark.parametrize("method", ["vanilla", "moa-n1", "eagle2"])
def test_greedy_and_sampled_text_on_one_seat(method: str, taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61, scale=2.0)
    drafter, tree = drafter_for(method, target), TREES["usual"]
    for sampling in (Sampling(), Sampling(0.8, seed=3), Sampling(1.1, 0.9, 20, seed=4)):
        check(target, drafter, PROMPTS[1], max_new_tokens=16, sampling=sampling, tree=tree)
    assert len(taped) == 1


def test_up_to_the_end_of_the_context(taped: list[Tapes]) -> None:
    """Near it trees lose levels."""
    target = tiny_target(vocab_size=61, max_position_embeddings=60)
    for method in ("vanilla", "moa-n1", "eagle2"):
        trace = check(target, drafter_for(method, target), PROMPTS[2], max_new_tokens=90)
        assert trace.reason == "context" and len(trace.output_ids) == 20


def test_a_tree_of_fixed_shape(taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    useful_one = useful("eagle2", target)
    assert isinstance(useful_one, EagleDrafter)
    drafter = EagleDrafter(useful_one.net, target, "eagle", static=True)
    check(target, drafter, PROMPTS[1], max_new_tokens=40)


def test_an_end_of_turn(taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    text = plain_greedy(target, PROMPTS[1], 30)
    drafter = drafter_for("moa-n1", target)
    trace = check(target, drafter, PROMPTS[1], max_new_tokens=40, eos_ids=(text[17],))
    assert trace.reason == "eos"


@pytest.mark.parametrize("method", ["vanilla", "moa-n3", "eagle2"])
def test_one_copy_to_the_host_a_cycle(
    method: str, taped: list[Tapes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No piece reads a number, or it could not be taken down; the answer is read once a cycle."""
    target, told = tiny_target(vocab_size=61), []
    drafter = drafter_for(method, target)
    tell, read = Verification.tell, []
    for name in ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__"):
        method_of_tensor = getattr(torch.Tensor, name)

        def counting(tensor: torch.Tensor, *args: Any, _of: Any = method_of_tensor) -> Any:
            read.append(tensor)
            return _of(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, counting)
    monkeypatch.setattr(Verification, "tell", lambda self: told.append(len(read)) or tell(self))
    trace = run(target, drafter, PROMPTS[1], max_new_tokens=40)
    assert len(told) == len(trace.cycles) > 3
    assert [count - told[0] for count in told] == list(range(len(told)))


def test_the_next_run_finds_everything_captured(taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    drafters = [drafter_for(method, target) for method in ("vanilla", "moa-n1", "eagle2")]
    settings = {"max_new_tokens": 14, "tree": TREES["usual"]}
    for drafter in drafters:
        run(target, drafter, PROMPTS[1], **settings)
    pieces = sum(len(player.tapes) for player in taped)
    assert len(taped) == 3 and len(target.seats) == 1
    for drafter in drafters:
        check(target, drafter, PROMPTS[1], **settings)
    assert len(taped) == 3
    assert sum(len(player.tapes) for player in taped) == pieces


def test_changed_weights_are_not_replayed(taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    drafter = drafter_for("moa-n0", target)
    before = run(target, drafter, PROMPTS[1], max_new_tokens=12)
    with torch.no_grad():
        target.model.lm_head.weight.copy_(target.model.lm_head.weight.flip(0))
        target.layers[0].mlp.down_proj.weight.mul_(3)
    after = check(target, drafter, PROMPTS[1], max_new_tokens=12)
    assert after.output_ids != before.output_ids
    with torch.no_grad():
        drafter.net.self_attention.mlp.down_proj.weight.mul_(5)
    check(target, drafter, PROMPTS[1], max_new_tokens=12)


def test_two_runs_at_once(taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    drafters = [drafter_for(method, target) for method in ("moa-n1", "eagle2")]
    runs = [decode(target, one, PROMPTS[place], Settings(30)) for place, one in enumerate(drafters)]
    traces = [Trace(), Trace()]
    for _ in range(200):
        for trace, events in zip(traces, runs, strict=True):
            trace.events += [event for event in [next(events, None)] if event is not None]
    for trace, prompt in zip(traces, PROMPTS, strict=False):
        assert trace.output_ids == plain_greedy(target, prompt, 30)
    assert len(target.seats) == 1  # the other one's memory is free again


def test_an_abandoned_run_leaves_its_seat(taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    events = decode(target, Vanilla(), PROMPTS[1], Settings(30))
    for _ in range(4):
        next(events)
    assert target.seats[0].busy
    events.close()
    assert not target.seats[0].busy
    check(target, Vanilla(), PROMPTS[2], max_new_tokens=20)


class Refuses:
    """A player that runs a piece and cannot capture it."""

    def __init__(self, device: torch.device) -> None:
        pass

    def play(self, key: Any, piece: Piece) -> None:
        piece()
        raise NotCaptured("operation not permitted when stream is capturing")


def test_without_graphs_it_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLAYERS, "cpu", Refuses)
    target = tiny_target(vocab_size=61)
    drafter = drafter_for("moa-n1", target)
    with pytest.warns(RuntimeWarning, match="cannot be captured as CUDA graphs .operation not per"):
        ours = run(target, drafter, PROMPTS[1], max_new_tokens=30)
    assert ours.output_ids == plain_greedy(target, PROMPTS[1], 30)
    check(target, drafter, PROMPTS[1], max_new_tokens=30)  # and does not say it again


def test_what_has_no_static_shapes_goes_the_eager_way(taped: list[Tapes]) -> None:
    target = tiny_target(vocab_size=61)
    check(target, useful("medusa", target), PROMPTS[1], max_new_tokens=20)
    run(target.eager(), Vanilla(), PROMPTS[1], max_new_tokens=20)
    assert not taped and not target.seats
