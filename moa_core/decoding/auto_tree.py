"""Draft trees sized as they grow: each level and each node only while it pays.

The text does not change, whatever the tree: only how fast it comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moa_core.decoding.sizing import Experience
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, Frontier, TreeSettings, best_children, rank_worth


@dataclass(slots=True, eq=False)
class Node:
    """A drafted node. score: what it is chosen by; parent: None for the root's children."""

    token: int
    parent: Node | None
    score: float
    log_prob: float
    depth: int
    row: int = 0  # among the nodes that were expanded with it
    place: int = 0  # in the tree, once it is kept
    expanded: bool = False


class Sizer:
    """Sizes the trees of one run, by what all runs of its drafter have taught.

    start  the tree of the first cycles, while nothing is known
    clock  seconds, for the times of levels; others come with the events
    """

    def __init__(
        self,
        start: TreeSettings,
        memory: dict[Any, Experience] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.start = start
        self.clock = clock
        self._memory: dict[Any, Experience] = {} if memory is None else memory
        self.known = Experience()
        self._nodes: list[Node] | None = None  # of the last tree, if it was sized here

    def fork(self) -> Sizer:
        """For another run, with the same memory."""
        return Sizer(self.start, self._memory, self.clock)

    def at(self, place: Any) -> None:
        """Where a run takes place: what is learnt over a link, say, counts for links alone."""
        self.known = self._memory.setdefault(place, Experience())

    def to_expand(self, level: Sequence[Node], depth: int, limit: TreeSettings) -> int:
        """How many nodes of a level, best first, to expand."""
        if depth >= limit.depth:
            return 0
        if not self.known.ready:
            return min(self.start.breadth, len(level)) if depth < self.start.depth else 0
        return self.known.to_expand([node.score for node in level[: limit.breadth]])

    def keep(self, root: int, tried: list[Node], limit: TreeSettings) -> DraftTree:
        """The tree of those nodes that are worth being verified."""
        # The stable sort keeps a parent before a child that ties with it: none loses its parent.
        best = sorted(tried, key=lambda node: -node.score)[: limit.budget]
        if self.known.ready:
            count = self.known.to_keep([node.score for node in best])
        else:
            count = self.start.budget
        self._nodes = kept = sorted(best[:count], key=lambda node: node.depth)
        for place, node in enumerate(kept, 1):
            node.place = place
        return DraftTree(
            (root, *(node.token for node in kept)),
            (-1, *(node.parent.place if node.parent else 0 for node in kept)),
            (0, *(node.depth for node in kept)),
            (0.0, *(node.log_prob for node in kept)),
        )

    def trim(self, tree: DraftTree, limit: TreeSettings) -> DraftTree:
        """What is worth being verified of a tree that is there at no cost."""
        nodes: list[Node] = []
        for node in range(1, len(tree)):
            above, log_prob = tree.parents[node], tree.log_probs[node]
            parent = nodes[above - 1] if above else None
            nodes.append(Node(tree.tokens[node], parent, log_prob, log_prob, tree.depths[node]))
        return self.keep(tree.tokens[0], nodes, limit)

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        """What came of the last tree."""
        nodes, self._nodes = self._nodes, None
        if nodes is None or drafted.offline or verified.kept:
            return
        known, path = self.known, verified.path
        for node in nodes:
            known.accepted.add(node.score, node.place in path)
            if node.expanded:
                known.extended.add(node.score, node.place in path[:-1])
        expanded = sum(node.expanded for node in nodes)
        known.verified.add(len(drafted.tree), verified.seconds)
        if drafted.cycle:  # the first reads the prompt
            seconds = drafted.seconds + verified.seconds
            seconds += verified.network_seconds + verified.other_seconds
            known.learn(verified.gained, seconds, len(nodes), expanded)


def grow_auto(
    root: int,
    root_logits: Tensor,
    expand: Callable[[Frontier], Tensor],
    limit: TreeSettings,
    sizer: Sizer,
    static: bool = False,
) -> DraftTree:
    """`moa_core.decoding.tree.grow`, with every level looked at before the next one is drafted.

    That takes a look at the device for each level, which costs nothing on a CPU.

    limit   the largest tree there is room for
    static  score nodes by their ranks alone
    """
    known, clock, device = sizer.known, sizer.clock, root_logits.device
    breadth = min(limit.breadth, root_logits.shape[-1])
    least = known.least() if known.ready else -math.inf
    worth = rank_worth(breadth, torch.device("cpu")).tolist() if static else None
    level = _children(root_logits[None], [None], breadth, worth, least)
    tried, depth, start = list(level), 1, clock()
    seen = np.zeros((1, 0), np.bool_)
    while count := sizer.to_expand(level, depth, limit):
        parents = level[:count]
        frontier, seen = _frontier(parents, seen, depth, device)
        level = _children(expand(frontier), parents, breadth, worth, least)
        tried += level
        now = clock()
        known.level.add(count, now - start)
        start, depth = now, depth + 1
    return sizer.keep(root, tried, limit)


def _frontier(
    parents: Sequence[Node], seen: NDArray[np.bool_], level: int, device: torch.device
) -> tuple[Frontier, NDArray[np.bool_]]:
    """Nodes to expand, and what they see of all that were. seen: the same of the level above."""
    rows = [node.parent.row if node.parent else 0 for node in parents]
    for row, node in enumerate(parents):
        node.row, node.expanded = row, True
    count, known = len(rows), seen.shape[1]
    now = np.zeros((count, known + count), np.bool_)  # with torch it takes thrice as long
    now[:, :known] = seen[rows]
    np.fill_diagonal(now[:, known:], True)
    names = torch.from_numpy(np.array([[node.token for node in parents], rows])).to(device)
    return Frontier(names[0], names[1], torch.from_numpy(now).to(device), level), now


def _children(
    logits: Tensor,
    parents: Sequence[Node | None],
    breadth: int,
    worth: Sequence[float] | None,
    least: float,
) -> list[Node]:
    """The most probable next tokens of each parent, best first; None: of the root.

    logits  [b, V]
    worth   of each rank, where scores go by ranks
    least   score below which a node is not looked at
    """
    best_probs, best_tokens = best_children(logits, breadth)
    found: list[Node] = []
    for parent, log_probs, tokens in zip(
        parents, best_probs.tolist(), best_tokens.tolist(), strict=True
    ):
        score, log_prob, depth = (
            (parent.score, parent.log_prob, parent.depth + 1) if parent else (0.0, 0.0, 1)
        )
        for gain, more, token in zip(worth or log_probs, log_probs, tokens, strict=True):
            if not score + gain >= (least if parent or found else -math.inf):  # no number, too
                break
            found.append(Node(token, parent, score + gain, log_prob + more, depth))
    found.sort(key=lambda node: -node.score)
    return found
