"""The draft tree keeps the most probable nodes, and every node sees its own ancestors only."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from moa_core.decoding.tree import DraftTree, Frontier, TreeSettings, grow
from moa_core.errors import UserError

VOCABULARY = 12
SHAPES = [
    TreeSettings(1, 1, 1),
    TreeSettings(1, 5, 3),
    TreeSettings(4, 1, 4),
    TreeSettings(3, 3, 1),
    TreeSettings(4, 3, 10),
    TreeSettings(5, 4, 30),
    TreeSettings(3, 4, 1000),
    TreeSettings(2, 64, 40),
]
Path = tuple[int, ...]


class Bigrams:
    """Grows trees from random next-token logits, and looks on."""

    def __init__(self, seed: int, certain: bool = False) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.logits = 2 * torch.randn(VOCABULARY, VOCABULARY, generator=generator)
        if certain:  # the best token is as good as sure: its log-probability is 0
            self.logits[torch.arange(VOCABULARY), self.logits.argmax(1)] = 1000.0
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


def paths(tree: DraftTree) -> list[Path]:
    """The tokens from the root, left out, to each node."""
    found: list[Path] = [()]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
        found.append((*found[parent], token))
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_the_nodes_kept_are_the_most_probable_ones(shape, seed):
    bigrams = Bigrams(seed)
    tree = bigrams.grow(shape)
    found = dict(zip(paths(tree)[1:], tree.log_probs[1:], strict=True))
    assert found == pytest.approx(bigrams.best(shape), abs=1e-4)
    assert len(found) == len(tree) - 1 <= shape.budget


@pytest.mark.parametrize("budget", range(1, 9))
def test_a_certain_chain_keeps_its_parents_when_all_scores_tie(budget):
    tree = Bigrams(3, certain=True).grow(TreeSettings(8, 3, budget))
    assert tree.log_probs == (0.0,) * (budget + 1)
    assert tree.parents == tuple(range(-1, budget))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s.depth > 1], ids=str)
def test_each_frontier_sees_its_own_ancestors(shape):
    bigrams = Bigrams(2)
    bigrams.grow(shape)
    assert len(bigrams.frontiers) == shape.depth - 1
    tried = bigrams.best(replace(shape, budget=1024))
    expanded: list[Path] = []  # in the order of the columns of `seen`
    above: list[Path] = [()]
    for level, frontier in enumerate(bigrams.frontiers, 1):
        assert frontier.level == level
        rows = [
            (*above[parent], token)
            for token, parent in zip(
                frontier.tokens.tolist(), frontier.parents.tolist(), strict=True
            )
        ]
        of_level = sorted((path for path in tried if len(path) == level), key=tried.__getitem__)
        assert set(rows) == set(of_level[-len(rows) :])  # its most probable nodes
        expanded += rows
        assert frontier.seen.shape == (len(rows), len(expanded))
        for path, seen in zip(rows, frontier.seen, strict=True):
            marked = [expanded[column] for column in seen.nonzero().flatten().tolist()]
            assert marked == [path[:end] for end in range(1, len(path) + 1)]
        above = rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("depth", 0), ("depth", 33), ("breadth", -1), ("breadth", 65), ("budget", 0),
        ("budget", 1025), ("depth", 2.5), ("breadth", True), ("budget", "12"), ("depth", None),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(name, value):
    with pytest.raises(UserError, match=f"^Tree {name} must be a whole number from 1 to"):
        TreeSettings(**{name: value})
