"""The target's choices: by argmax or by one draw a position, looked up among the drafts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verify import (
    Sampling,
    choose,
    first_difference,
    sample,
    target_probs,
    walk,
)
from tests.properties import SEEDS, TOKENS, above, trees

TREE = DraftTree((9, 4, 5, 4, 6), (-1, 0, 0, 1, 2), (0, 1, 1, 2, 2), (0.0,) * 5)
LOGITS = torch.randn(5, 10, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("probs", "draw", "token"),
    [
        *(([0.2, 0.3, 0.5], *pair) for pair in ((0.0, 0), (0.19, 0), (0.21, 1), (0.51, 2))),
        ([0.0, 0.0, 1.0], 0.0, 2),  # never what is impossible
        ([0.0, 1.0, 0.0], 0.9999, 1),
        ([0.5, 0.0, 0.5], 0.5, 2),
        ([0.25, 0.75, 0.0], 1 - 1e-12, 1),  # rounds up to 1 in float32
        ([1.0, 0.0, 0.0], 1 - 1e-12, 0),
        ([0.1, 0.1, 0.1], 0.5, 1),  # rounding of a sum below or above 1 is made good
        ([2.0, 1.0, 1.0], 0.8, 2),
    ],
)
def test_a_draw_finds_its_token(probs, draw, token):
    assert sample(torch.tensor([probs]), [draw]).tolist() == [token]


ALMOST_GREEDY = [
    *(Sampling(temperature, seed=1) for temperature in (0, 1e-300, 1e-38, 1e-7, 1e-6, 1e-5)),
    Sampling(2.0, top_k=1, seed=1),
    Sampling(1e-3, 1e-300, 2**31, -(2**62)),  # the limits themselves
]


@pytest.mark.parametrize("sampling", ALMOST_GREEDY, ids=str)
def test_next_to_no_temperature_and_top_k_of_one_are_greedy_and_give_numbers(sampling):
    """Found by trying: logits over 1e-157 are no numbers, nor were the probabilities then."""
    chosen = choose(LOGITS, TREE, 3, sampling)
    assert chosen.tokens == tuple(LOGITS.argmax(-1).tolist())
    assert sampling.greedy == (sampling.temperature < 1e-6)
    assert all(0 < prob <= 1 for prob in chosen.probs)
    assert all(0 <= prob <= 1 for prob in chosen.drafts)
    assert set(chosen.probs) == {1.0} or sampling.top_k != 1


def test_the_first_token_that_differs_is_found_and_a_text_that_stopped_earlier_is_the_same():
    assert first_difference([9], [1, 2]) == 0 and first_difference([7, 3, 4], [7, 5, 4]) == 1
    for ours, plain in (([1, 2], [1, 2]), ([1], [1, 2]), ([1, 2], [1]), ([1], [])):
        assert first_difference(ours, plain) is None


TEMPERATURES = st.floats(0, 100) | st.floats(0, 1e-5)


@given(trees(), SEEDS)
def test_the_path_kept_is_the_longest_of_the_target_s_own_choices(tree, seed):
    draws = torch.Generator().manual_seed(seed)
    choices = torch.randint(TOKENS, (len(tree),), generator=draws).tolist()
    edges = zip(tree.parents, tree.tokens, strict=True)
    wanted = [choices[parent] == token for parent, token in edges]
    paths = (above(tree, node) for node in range(len(tree)))
    agreed = [path for path in paths if all(wanted[one] for one in path)]
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
