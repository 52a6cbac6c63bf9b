"""Runs in static shapes write what plain runs write, to the last node of each tree."""

from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.eagle import EagleDrafter
from moa_core.model.target import Target
from moa_core.static import buffers, replay
from moa_core.static.cycle import Verification
from moa_core.static.replay import Graphs, Piece, Plain
from moa_core.static.run import GraphTarget, with_graphs
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


class Noted(Plain):
    """Runs pieces as they are, and notes their keys. made: all players, in order."""

    made: ClassVar[list["Noted"]] = []

    def __init__(self, device: torch.device) -> None:
        self.keys: list[Any] = []
        self.made.append(self)

    def play(self, key: Any, piece: Piece) -> None:
        self.keys.append(key)
        piece()


@pytest.fixture(autouse=True)
def players(monkeypatch: pytest.MonkeyPatch) -> list[Noted]:
    monkeypatch.setattr(buffers, "STEP", 32)  # a text of a hundred tokens crosses several buckets
    monkeypatch.setattr(Noted, "made", [])
    return Noted.made


def tiny(**sizes: Any) -> GraphTarget:
    return GraphTarget(tiny_target(**{"vocab_size": 61, **sizes}), Noted)


def plainly(target: Target) -> Target:
    """The same weights, for plain runs."""
    twin = Target.__new__(Target)
    vars(twin).update(vars(target))
    return twin


def check(target: Target, drafter: Drafter, prompt: list[int], **settings: Any) -> Trace:
    ours = run(target, drafter, prompt, **settings)
    other = run(plainly(target), drafter, prompt, **settings)
    assert (ours.output_ids, ours.reason) == (other.output_ids, other.reason)
    assert shapes(ours) == shapes(other)
    for (one, seen), (same, known) in zip(ours.cycles, other.cycles, strict=True):
        assert one.tree.log_probs == pytest.approx(same.tree.log_probs, abs=1e-3)
        assert seen.choices == known.choices and seen.emitted == known.emitted
        assert seen.choice_probs == pytest.approx(known.choice_probs, abs=1e-3)
        assert seen.draft_probs == pytest.approx(known.draft_probs, abs=1e-3)
        assert one.tli == same.tli
    return ours


@pytest.mark.parametrize("method", ["vanilla", "moa-n1", "moa-n3", "eagle2"])
def test_long_texts_over_several_buckets(method: str, players: list[Noted]) -> None:
    target = tiny()
    drafter, accepted = drafter_for(method, target), 0
    for prompt in PROMPTS[::2]:
        trace = check(target, drafter, prompt, max_new_tokens=70, tree=TREES["usual"])
        accepted += sum(len(event.path) for _, event in trace.cycles)
    keys = {key for player in players for key in player.keys if key[0] == "verify"}
    assert len(keys) > 2
    assert method == "vanilla" or accepted > 20


@pytest.mark.parametrize("tree", TREES)
def test_trees_of_every_shape(tree: str, players: list[Noted]) -> None:
    target = tiny()
    for method in ("moa-n0", "eagle2"):
        check(target, drafter_for(method, target), PROMPTS[1], max_new_tokens=16, tree=TREES[tree])
    assert len(players) == 2


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
def test_other_targets(sizes: dict[str, Any]) -> None:
    target = tiny(**sizes)
    prompt = [token % target.config.vocab_size for token in PROMPTS[1]]
    for method in ("vanilla", "moa-n1", "eagle2"):
        trace = check(target, drafter_for(method, target), prompt, max_new_tokens=14)
        assert trace.output_ids == plain_greedy(target, prompt, 14)


@pytest.mark.parametrize("method", ["vanilla", "moa-n1", "eagle2"])
def test_greedy_and_sampled_text_over_one_cache(method: str, players: list[Noted]) -> None:
    target = tiny(scale=2.0)
    drafter, tree = drafter_for(method, target), TREES["usual"]
    for sampling in (Sampling(), Sampling(0.8, seed=3), Sampling(1.1, 0.9, 20, seed=4)):
        check(target, drafter, PROMPTS[1], max_new_tokens=16, sampling=sampling, tree=tree)
    assert len(players) == 1


def test_up_to_the_end_of_the_context() -> None:
    """Near it trees lose levels."""
    target = tiny(max_position_embeddings=60)
    for method in ("vanilla", "moa-n1", "eagle2"):
        trace = check(target, drafter_for(method, target), PROMPTS[2], max_new_tokens=90)
        assert trace.reason == "context" and len(trace.output_ids) == 20


def test_a_tree_of_fixed_shape_and_an_end_of_turn() -> None:
    target = tiny()
    useful_one = useful("eagle2", target)
    assert isinstance(useful_one, EagleDrafter)
    drafter = EagleDrafter(useful_one.net, target, "eagle", static=True)
    text = check(target, drafter, PROMPTS[1], max_new_tokens=40).output_ids
    trace = check(target, drafter, PROMPTS[1], max_new_tokens=40, eos_ids=(text[17],))
    assert trace.reason == "eos"


@pytest.mark.parametrize("method", ["vanilla", "moa-n3", "eagle2"])
def test_no_piece_reads_a_number(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle copies its tree to the host, and its answer: nothing else."""
    target, read = tiny(), []
    drafter = drafter_for(method, target)
    for name in ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__"):
        real = getattr(torch.Tensor, name)

        def counting(tensor: torch.Tensor, *args: Any, _real: Any = real) -> Any:
            read.append(tensor)
            return _real(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, counting)
    told: list[int] = []
    tell = Verification.tell
    monkeypatch.setattr(Verification, "tell", lambda self: told.append(len(read)) or tell(self))
    trace = run(target, drafter, PROMPTS[1], max_new_tokens=40)
    assert len(told) == len(trace.cycles) > 3
    each = 1 if method == "vanilla" else 2
    assert [count - told[0] for count in told] == [each * cycle for cycle in range(len(told))]


def test_the_next_run_finds_everything_made(players: list[Noted]) -> None:
    target = tiny()
    drafters = [drafter_for(method, target) for method in ("vanilla", "moa-n1", "eagle2")]
    for _ in range(2):
        for drafter in drafters:
            run(target, drafter, PROMPTS[1], max_new_tokens=14, tree=TREES["usual"])
    assert len(players) == 3 and len(target.pool) == 1
    check(target, drafters[1], PROMPTS[2], max_new_tokens=120)  # needs a larger cache
    assert len(players) == 4 and len(target.pool) == 1


def test_changed_weights_are_not_replayed(players: list[Noted]) -> None:
    target = tiny()
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
    assert len(players) == 3


def test_two_runs_at_once() -> None:
    target = tiny()
    drafters = [drafter_for(method, target) for method in ("moa-n1", "eagle2")]
    runs = [decode(target, one, PROMPTS[place], Settings(30)) for place, one in enumerate(drafters)]
    traces = [Trace(), Trace()]
    for _ in range(200):
        for trace, events in zip(traces, runs, strict=True):
            trace.events += [event for event in [next(events, None)] if event is not None]
    for trace, prompt in zip(traces, PROMPTS, strict=False):
        assert trace.output_ids == plain_greedy(target, prompt, 30)
    assert len(target.pool) == 1  # the other one's memory is free again


def test_an_abandoned_run_leaves_its_cache() -> None:
    target = tiny()
    events = decode(target, Vanilla(), PROMPTS[1], Settings(30))
    for _ in range(4):
        next(events)
    assert target.pool[0].busy
    events.close()
    assert not target.pool[0].busy
    check(target, Vanilla(), PROMPTS[2], max_new_tokens=20)


def test_without_graphs_it_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be captured has run all the same, and is said once."""

    class Refused(Graphs):
        def __init__(self, device: torch.device) -> None:
            self.failed, self._graphs = "", {}
            self._device, self._pool, self._stream = device, None, Stream()

    class Stream:
        def wait_stream(self, other: Any) -> None: ...

    def refuse(*given: Any, **how: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    for name, stand_in in {
        "current_stream": lambda device: Stream(), "stream": lambda stream: nullcontext(),
        "CUDAGraph": lambda: None, "graph": refuse,
    }.items():  # fmt: skip
        monkeypatch.setattr(replay.torch.cuda, name, stand_in)
    target = GraphTarget(tiny_target(vocab_size=61), Refused)
    drafter = drafter_for("moa-n1", target)
    with pytest.warns(RuntimeWarning, match="cannot be captured as CUDA graphs .operation not per"):
        ours = run(target, drafter, PROMPTS[1], max_new_tokens=30)
    assert ours.output_ids == plain_greedy(target, PROMPTS[1], 30)
    check(target, drafter, PROMPTS[1], max_new_tokens=30)  # and does not say it again


def test_what_has_no_static_shapes_runs_plainly(players: list[Noted]) -> None:
    target = tiny()
    check(target, useful("medusa", target), PROMPTS[1], max_new_tokens=20)
    assert not players and not target.pool
    assert type(with_graphs(plainly(target))) is Target  # no GPU, no graphs
