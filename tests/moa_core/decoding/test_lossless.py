"""Whatever is drafted, greedy text is the target's own, token for token."""

from itertools import product, zip_longest

import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.model.target import Target
from moa_core.train.drafters import fresh
from tests.models import SHAPES, drafter_of, plain_greedy, tiny_target, traced, useful

METHODS = ("vanilla", "moa-n0", "moa-n1", "eagle2", "moa-n0+ngram")
PROMPTS = ([7], [5, 9, 33, 7, 21, 40, 11], [(i * i + 3) % 60 for i in range(40)])
TREES = {
    "default": TreeSettings(),
    "depth 1": TreeSettings(depth=1, breadth=4, budget=4),
    "breadth 1": TreeSettings(depth=5, breadth=1, budget=5),
    "budget 1": TreeSettings(depth=3, breadth=8, budget=1),
    "budget above what was tried": TreeSettings(depth=2, breadth=3, budget=1000),
    "all ones": TreeSettings(depth=1, breadth=1, budget=1),
    "breadth above the vocabulary": TreeSettings(depth=2, breadth=64, budget=60),
    "deep": TreeSettings(depth=12, breadth=3, budget=30),
    "auto": AUTO,
}
SIZED = ("vanilla", "moa-n0", "moa-n3", "moa-n1+ngram", "independent", "ngram")


def fitting(prompt: list[int], target: Target) -> list[int]:
    return [token % target.config.vocab_size for token in prompt]


PEERS = ("eagle3", "medusa", "tandem", "independent", "ngram")
WITH = {  # peers whose forwards depend on a target's form
    "llama": PEERS, "llama, 5 heads on 1": ("eagle3",), "qwen3": ("eagle3",),
    "llama, scaled rope": ("tandem",), "qwen2": ("tandem",),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_every_kind_of_target_writes_its_own_text(name):
    target = tiny_target(**SHAPES[name])
    methods = ("vanilla", "moa-n1", "eagle2", *WITH.get(name, ()))
    drafters = [*(drafter_of(method, target) for method in methods), fresh("moa-n1", target, 1)]
    for prompt in (fitting(prompt, target) for prompt in PROMPTS):
        expected = plain_greedy(target, prompt, 18)
        for drafter in drafters:
            trace = traced(target, drafter, prompt, max_new_tokens=18)
            assert trace.output_ids == expected, (drafter.name, len(prompt))
            assert trace.reason == "length"


@pytest.fixture(scope="module")
def plain() -> tuple[Target, list[list[int]]]:
    target = tiny_target(vocab_size=61)
    return target, [plain_greedy(target, prompt, 40) for prompt in PROMPTS]


@pytest.mark.parametrize(
    ("method", "tree"),
    [*product(("moa-n1", "eagle2"), TREES), ("moa-n0", "deep"), *product(SIZED, ["auto"])],
)
def test_every_shape_of_tree_gives_the_same_text(method, tree, plain):
    (target, texts), lengths = plain, list[int]()
    drafter = drafter_of(method, target)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        trace = traced(target, drafter, prompt, max_new_tokens=40, tree=TREES[tree])
        assert trace.output_ids == text
        for drafted in (event.tree for event in trace.of(Drafted)):
            assert len(drafted) > 1 or tree == "auto"
            assert len(drafted) - 1 <= TREES[tree].budget
            assert max(drafted.depths) <= TREES[tree].depth
        lengths += trace.accepted_lengths
    if tree == "deep":  # paths of all lengths are accepted, or this would show little
        assert {1, 2, 3} <= set(lengths) and sum(lengths) / len(lengths) > 1.3


@pytest.mark.parametrize("name", SHAPES)
def test_all_of_the_targets_layers_draft_what_the_target_says(name):
    """N = L on untouched embeddings is the target itself, if K, V, positions and masks are true."""
    target = tiny_target(**SHAPES[name])
    drafter = useful(f"moa-n{len(target.layers)}", target, whisper=0.0)
    chain, bush = TreeSettings(4, 1, 4), TreeSettings(4, 3, 30)
    for prompt in (fitting(prompt, target) for prompt in PROMPTS):
        trace = traced(target, drafter, prompt, max_new_tokens=26, tree=chain)
        assert trace.accepted_lengths == [5] * 5
        trace = traced(target, drafter, prompt, max_new_tokens=26, tree=bush)
        for drafted, verified in trace.cycles:
            drafts = [drafted.tree.draft_prob(node) for node in range(31)]
            assert drafts == pytest.approx(verified.draft_probs, abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("length", "room"), [(47, 1), (30, 18)])
def test_a_full_context_ends_the_text_and_nothing_breaks(method, length, room):
    target = tiny_target(max_position_embeddings=48)
    prompt = [(7 * i + 1) % 60 for i in range(length)]
    drafter = drafter_of(method, target)
    trace = traced(target, drafter, prompt, max_new_tokens=100)
    assert trace.reason == "context"
    assert trace.output_ids == plain_greedy(target, prompt, room)
    exact = traced(target, drafter, prompt, max_new_tokens=room)
    assert (exact.reason, exact.output_ids) == ("length", trace.output_ids)


@pytest.mark.parametrize("method", METHODS)
def test_an_end_of_text_within_an_accepted_path_ends_it_there(method, plain):
    target, texts = plain
    drafter = drafter_of(method, target)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        for eos in {text[0], text[3], text[10]}:
            trace = traced(target, drafter, prompt, max_new_tokens=40, eos_ids=(eos, 9999))
            assert trace.output_ids == text[: text.index(eos) + 1]
            assert trace.reason == "eos"
            assert eos != text[0] or trace.target_calls == 1


@pytest.mark.parametrize("method", METHODS)
def test_one_drafter_serves_runs_that_take_turns(method):
    target = tiny_target()
    drafter = drafter_of(method, target)
    alone = [traced(target, drafter, prompt, max_new_tokens=20) for prompt in PROMPTS]
    turns = zip_longest(*(decode(target, drafter, prompt, Settings(20)) for prompt in PROMPTS))
    for trace, events in zip(alone, zip(*turns, strict=True), strict=True):
        together = Trace(events=[event for event in events if event is not None])
        assert together.output_ids == trace.output_ids
