"""The draft tree keeps the most probable nodes, and every node sees its own ancestors only."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from moa_core.decoding.tree import AUTO, DraftTree, Frontier, TreeSettings, grow, named_tree
from moa_core.errors import UserError
from moa_core.model.cache import KVCache
from tests.properties import SEEDS, above, paths, trees

VOCABULARY = 12
SHAPES = ((1, 1, 1), (1, 5, 3), (4, 1, 4), (3, 3, 1), (4, 3, 10), (5, 4, 30), (3, 4, 1000),
          (2, 64, 40))  # fmt: skip
Path = tuple[int, ...]


class Bigrams:
    """Grows trees from random next-token logits, and looks on."""

    def __init__(self, seed: int, scale: float = 2.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.logits = scale * torch.randn(VOCABULARY, VOCABULARY, generator=generator)
        self.frontiers: list[Frontier] = []

    def grow(self, shape: TreeSettings) -> DraftTree:
        return grow(0, self.logits[0], self.expand, shape)

    def expand(self, frontier: Frontier) -> Tensor:
        self.frontiers.append(frontier)
        return self.logits[frontier.tokens]

    def best(self, shape: TreeSettings) -> dict[Path, float]:
        """The same tree by trying everything out, in plain Python."""
        log_probs = self.logits.double().log_softmax(-1)
        breadth = min(shape.breadth, VOCABULARY)

        def children(path: Path, score: float) -> list[tuple[float, Path]]:
            row = log_probs[path[-1] if path else 0].tolist()
            best = sorted(range(VOCABULARY), key=lambda token: -row[token])[:breadth]
            return [(score + row[token], (*path, token)) for token in best]

        level = children((), 0.0)
        tried = list(level)
        for _ in range(1, shape.depth):
            level = [child for score, path in level for child in children(path, score)]
            tried += level
            level = sorted(level, reverse=True)[:breadth]
        kept = sorted(tried, reverse=True)[: shape.budget]
        return {path: score for score, path in kept}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_the_nodes_kept_are_the_most_probable_ones(shape, seed):
    bigrams, shape = Bigrams(seed), TreeSettings(*shape)
    tree = bigrams.grow(shape)
    found = dict(zip(paths(tree)[1:], tree.log_probs[1:], strict=True))
    assert found == pytest.approx(bigrams.best(shape), abs=1e-4)
    assert len(found) == len(tree) - 1 <= shape.budget


ANY_SHAPE = st.builds(TreeSettings, st.integers(1, 5), st.integers(1, 5), st.integers(1, 30))


@given(SEEDS, ANY_SHAPE, st.sampled_from([0.0, 0.5, 3.0, 500.0]))
def test_a_tree_that_grew_is_one_and_has_what_was_asked_for(seed, shape, scale):
    bigrams, breadth = Bigrams(seed, scale), shape.breadth
    bigrams.logits = bigrams.logits.round(decimals=1)  # at a large scale all but sure, and ties
    tree = bigrams.grow(shape)
    tried = breadth + (shape.depth - 1) * breadth * breadth
    assert len(tree) - 1 == min(shape.budget, tried)  # the budget is used up, never passed
    assert (tree.tokens[0], tree.parents[0], tree.depths[0], tree.log_probs[0]) == (0, -1, 0, 0.0)
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        assert 0 <= parent < node and tree.depths[node] == tree.depths[parent] + 1 <= shape.depth
        assert tree.log_probs[node] <= tree.log_probs[parent]
        assert tree.children[parent][tree.tokens[node]] == node  # no token twice below a parent
        expected = bigrams.logits[tree.tokens[parent]].log_softmax(-1)[tree.tokens[node]]
        assert abs(tree.log_probs[node] - tree.log_probs[parent] - float(expected)) < 1e-3
    assert len(bigrams.frontiers) == shape.depth - 1
    expanded: list[Path] = []  # in the order of the columns of `seen`
    nodes: list[Path] = [()]
    for level, frontier in enumerate(bigrams.frontiers, 1):
        assert frontier.level == level and len(frontier.tokens) == breadth
        edges = zip(frontier.tokens.tolist(), frontier.parents.tolist(), strict=True)
        nodes = [(*nodes[parent], token) for token, parent in edges]
        expanded += nodes
        for path, seen in zip(nodes, frontier.seen, strict=True):  # its own ancestors alone
            marked = [expanded[column] for column in seen.nonzero().flatten().tolist()]
            assert marked == [path[:end] for end in range(1, level + 1)]


@given(trees())
def test_a_node_sees_itself_and_what_is_above_it_and_nothing_else(tree):
    mask = tree.ancestors()
    for node in range(len(tree)):
        assert mask[node].nonzero().flatten().tolist() == sorted({0, *above(tree, node)})


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


@pytest.mark.parametrize(
    ("text", "settings"),
    [("auto", AUTO), ("5-4-11", TreeSettings()), ("12-3-30", TreeSettings(12, 3, 30))],
)
def test_a_tree_is_written_as_it_is_read(text, settings):
    assert named_tree(text) == settings and str(settings) == text
    kept = settings.as_dict()
    assert TreeSettings(**kept) == settings and ("auto" in kept) == settings.auto


@pytest.mark.parametrize("text", ["", "5-4", "5-4-11-2", "a-b-c", " 5-4-11", "1234567890-1-1"])
def test_what_is_no_tree_is_refused(text):
    words = f"^{text!r} is not a tree: write auto, or depth-breadth-budget, as in 5-4-11.$"
    with pytest.raises(UserError, match=words):
        named_tree(text)
