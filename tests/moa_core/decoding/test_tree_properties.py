"""Whatever tree is drafted: its shape, who sees whom, which path is kept, also in the cache."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from moa_core.decoding.tree import DraftTree, Frontier, TreeSettings, grow
from moa_core.decoding.verify import Sampling, choose, sample, target_probs, walk
from moa_core.model.cache import KVCache
from moa_core.model.target import Target
from tests.models import tiny_target
from tests.properties import SEEDS, TOKENS, above, trees

SHAPES = st.builds(TreeSettings, st.integers(1, 5), st.integers(1, 5), st.integers(1, 30))
TEMPERATURES = st.floats(0, 100) | st.floats(0, 1e-5)
TARGET = tiny_target()


def logits_of(seed: int, scale: float, size: int = 9) -> torch.Tensor:
    """[size, size] what comes after each token; at a large scale all but sure, and ties."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(size, size, generator=generator)).round(decimals=1)


@given(SEEDS, SHAPES, st.sampled_from([0.0, 0.5, 3.0, 500.0]), st.booleans())
def test_a_tree_that_grew_is_one_and_has_what_was_asked_for(seed, shape, scale, static):
    logits, seen = logits_of(seed, scale), []

    def expand(frontier: Frontier) -> torch.Tensor:
        seen.append(frontier)
        return logits[frontier.tokens]

    tree = grow(0, logits[0], expand, shape, static=static)
    breadth = min(shape.breadth, 9)
    tried = breadth + (shape.depth - 1) * breadth * breadth
    assert len(tree) - 1 == min(shape.budget, tried)  # the budget is used up, never passed
    assert (tree.tokens[0], tree.parents[0], tree.depths[0], tree.log_probs[0]) == (0, -1, 0, 0.0)
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        assert 0 <= parent < node and tree.depths[node] == tree.depths[parent] + 1 <= shape.depth
        assert tree.log_probs[node] <= tree.log_probs[parent]
        assert tree.children[parent][tree.tokens[node]] == node  # no token twice below a parent
        expected = logits[tree.tokens[parent]].log_softmax(-1)[tree.tokens[node]]
        assert abs(tree.log_probs[node] - tree.log_probs[parent] - float(expected)) < 1e-3
    assert [frontier.level for frontier in seen] == list(range(1, shape.depth))
    for frontier in seen:
        assert len(frontier.tokens) == breadth
        assert frontier.seen.sum(1).tolist() == [frontier.level] * breadth


@given(trees())
def test_a_node_sees_itself_and_what_is_above_it_and_nothing_else(tree):
    mask = tree.ancestors()
    for node in range(len(tree)):
        assert mask[node].nonzero().flatten().tolist() == sorted({0, *above(tree, node)})


@given(trees(), SEEDS)
def test_the_path_kept_is_the_longest_of_the_target_s_own_choices(tree, seed):
    """Against trying every node."""
    draws = torch.Generator().manual_seed(seed)
    choices = torch.randint(TOKENS, (len(tree),), generator=draws).tolist()
    paths = [above(tree, node) for node in range(len(tree))]
    agreed = [
        path
        for path in paths
        if all(choices[tree.parents[one]] == tree.tokens[one] for one in path)
    ]
    best = max(agreed, key=len)
    assert sum(len(path) == len(best) for path in agreed) == 1  # a choice is one token
    assert walk(tree, choices) == (tuple(best), choices[best[-1] if best else 0])


@given(trees(12), SEEDS, TEMPERATURES, st.floats(0.001, 1), st.integers(0, 8))
def test_a_choice_is_the_one_made_without_the_tree(tree, seed, temperature, top_p, top_k):
    sampling = Sampling(temperature, top_p, top_k, seed)
    logits = torch.randn(len(tree), TOKENS, generator=torch.Generator().manual_seed(seed))
    chosen = choose(logits, tree, 20, sampling)
    probs = logits.softmax(-1) if sampling.greedy else target_probs(logits, sampling)
    for node in range(len(tree)):
        alone = DraftTree.only_root(tree.tokens[node])
        [token] = choose(logits[node][None], alone, 20 + tree.depths[node], sampling).tokens
        assert chosen.tokens[node] == token
        assert chosen.probs[node] == approx(probs[node, token].item(), abs=1e-5)
    drafts = [probs[tree.parents[node], tree.tokens[node]].item() for node in range(1, len(tree))]
    assert chosen.drafts == approx((1.0, *drafts), abs=1e-5)


@given(SEEDS, st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=6))
def test_a_draw_is_never_an_impossible_token(seed, draws):
    probs = torch.rand(len(draws), 7, generator=torch.Generator().manual_seed(seed))
    probs[:, ::2] = 0
    assert all(token % 2 for token in sample(probs, draws).tolist())


@given(st.integers(0, 5), trees(), SEEDS)
def test_what_the_cache_keeps_is_the_path_gathered(known, tree, seed):
    generator = torch.Generator().manual_seed(seed)
    slots = (0, *above(tree, int(torch.randint(len(tree), (1,), generator=generator))))
    cache = KVCache(torch.device("cpu"), 2, 3, 30, torch.float32, 3)
    written = torch.randn(3, 2, 2, known + len(tree), 3, generator=generator)
    cache.append(written[..., :known, :])
    for layer in range(3):
        new = written[layer, :, None, :, known:]
        keys, values = cache.update(new[0], new[1], layer)
        assert torch.equal(torch.stack([keys[0], values[0]]), written[layer])
    cache.keep(slots)
    assert cache.length == known + len(slots)
    kept = [*range(known), *(known + slot for slot in slots)]
    assert torch.equal(cache.read(0, cache.length), written[..., kept, :])


@torch.inference_mode()
@given(trees(10), SEEDS)
def test_a_tree_is_verified_as_its_paths_alone_are(tree, seed):
    """Masks and positions: each node's logits are those after the text that leads to it."""
    target: Target = TARGET.fork()
    draws = torch.Generator().manual_seed(seed)
    prompt = torch.randint(64, (int(torch.randint(1, 9, (1,), generator=draws)),), generator=draws)
    target.prefill(prompt.tolist(), 40)
    logits = target.verify(tree)
    node = int(torch.randint(len(tree), (1,), generator=draws))
    path = above(tree, node)
    text = [*prompt.tolist(), tree.tokens[0], *(tree.tokens[one] for one in path)]
    alone, _ = TARGET.fork().prefill(text, 40)
    torch.testing.assert_close(logits[node], alone, rtol=1e-3, atol=1e-3)
    target.keep(path)
    after = target.verify(DraftTree.only_root(7))
    expected, _ = TARGET.fork().prefill([*text, 7], 40)
    torch.testing.assert_close(after[0], expected, rtol=1e-3, atol=1e-3)
