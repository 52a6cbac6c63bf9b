"""The draft tree: how it grows, which nodes are kept, and which nodes each one attends to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import Tensor

from moa_core.errors import UserError, is_whole

LIMITS = {"depth": 32, "breadth": 64, "budget": 1024}


@dataclass(frozen=True)
class TreeSettings:
    """Shape of the draft tree.

    depth    drafted levels below the root
    breadth  nodes expanded per level, and children tried per expanded node
    budget   drafted nodes kept after reranking, root not counted
    auto     size each cycle's tree by measured costs and gains, within these limits
    """

    depth: int = 5
    breadth: int = 4
    budget: int = 11  # with the root 12 rows: onnxruntime multiplies six at a time
    auto: bool = False

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            if not is_whole(getattr(self, name), 1, limit):
                raise UserError(f"Tree {name} must be a whole number from 1 to {limit}.")

    def as_dict(self) -> dict[str, Any]:
        """As traces and results keep it; `auto` only if it is set, so that old files stay valid."""
        kept = asdict(self)
        return kept if self.auto else {name: kept[name] for name in kept if name != "auto"}

    def __str__(self) -> str:
        return "auto" if self.auto else f"{self.depth}-{self.breadth}-{self.budget}"


AUTO = TreeSettings(12, 8, 48, auto=True)


def named_tree(text: str, others: str = "auto") -> TreeSettings:
    """A tree written as auto or depth-breadth-budget, such as 5-4-11. UserError for anything else.

    others  other words that this option accepts, for the message
    """
    if text == "auto":
        return AUTO
    sizes = re.fullmatch(r"(\d{1,9})-(\d{1,9})-(\d{1,9})", text)
    if not sizes:
        raise UserError(
            f"{text!r:.80} is not a tree: write {others}, or depth-breadth-budget, as in 5-4-11."
        )
    depth, breadth, budget = map(int, sizes.groups())
    return TreeSettings(depth, breadth, budget)


LARGEST = 2**53  # of any number in a trace
Whole = Annotated[int, Meta(ge=0, le=LARGEST)]
Parent = Annotated[int, Meta(ge=-1, le=LARGEST)]
Real = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


@dataclass(frozen=True)
class DraftTree:
    """Tokens that a drafter proposes below the root, the newest token, which is already certain.

    Node 0 is the root; a parent always comes before its children.
    tokens     token id of each node
    parents    index of each node's parent, -1 for the root
    depths     levels below the root, 0 for the root
    log_probs  the drafter's cumulative log-probability from the root, 0 for the root
    """

    tokens: tuple[Whole, ...]
    parents: tuple[Parent, ...]
    depths: tuple[Whole, ...]
    log_probs: tuple[Real, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def only_root(cls, token: int) -> DraftTree:
        """The tree of a drafter that proposes nothing: plain decoding."""
        return cls((token,), (-1,), (0,), (0.0,))

    @classmethod
    def chain(cls, root: int, tokens: Sequence[int], log_probs: Sequence[float]) -> DraftTree:
        """A tree without branches. log_probs: of each token, given the tokens before it."""
        count = len(tokens) + 1
        sums = tuple(accumulate(log_probs, initial=0.0))
        return cls((root, *tokens), tuple(range(-1, count - 1)), tuple(range(count)), sums)

    @cached_property
    def children(self) -> tuple[dict[int, int], ...]:
        """For each node, its children as {token id: node}."""
        found: tuple[dict[int, int], ...] = tuple({} for _ in self.tokens)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent][self.tokens[node]] = node
        return found

    def draft_prob(self, node: int) -> float:
        """The drafter's probability of a node given its parent; 1 for the root."""
        parent = self.parents[node]
        return 1.0 if parent < 0 else math.exp(self.log_probs[node] - self.log_probs[parent])

    def ancestors(self) -> Tensor:
        """[n, n] bool: row i marks node i and its ancestors, the only nodes it may attend to."""
        seen = np.eye(len(self), dtype=bool)  # one torch operation per node would be slower
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] |= seen[parent]
        return torch.from_numpy(seen)


@dataclass(frozen=True)
class Frontier:
    """One level of nodes for a drafter to expand, all at the same depth.

    tokens   [b] token ids
    parents  [b] each one's parent as a row of the previous frontier; 0 (the root) at level 1
    seen     [b, s] bool over every node expanded so far, this level last: itself and its ancestors
    level    depth of these nodes, 1 for the root's children
    """

    tokens: Tensor
    parents: Tensor
    seen: Tensor
    level: int


@dataclass(slots=True, eq=False)
class Node:
    """A node of a growing tree.

    parent    None for the root's children
    log_prob  cumulative from the root; it decides whether the node is kept
    row       its row among the nodes that were expanded with it
    place     its index in the tree, once it is kept
    """

    token: int
    parent: Node | None
    log_prob: float
    depth: int
    row: int = 0
    place: int = 0
    expanded: bool = False


class Sizing:
    """How large a tree grows: here, as large as was asked for."""

    def begin(self) -> float:
        """Start a tree. Returns the log-probability below which nodes are skipped."""
        return -math.inf

    def to_expand(self, level: Sequence[Node], depth: int, limit: TreeSettings) -> int:
        """How many nodes of a level, best first, to expand; 0: draft no further."""
        return min(limit.breadth, len(level)) if depth < limit.depth else 0

    def drafted(self, expanded: int) -> None:
        """A level is finished in which this many nodes were expanded."""

    def keep(self, root: int, tried: Sequence[Node], limit: TreeSettings) -> DraftTree:
        """The tree of the nodes worth verifying, in the order in which they were tried."""
        return build_tree(root, best_nodes(tried, limit.budget))


def grow(
    root: int, root_logits: Tensor, expand: Callable[[Frontier], Tensor], limit: TreeSettings,
    sizing: Sizing | None = None, words: Tensor | None = None,
) -> DraftTree:  # fmt: skip
    """Grow a tree by the drafter's cumulative log-probability, then keep the best nodes.

    Each level expands the `breadth` most probable nodes of the last one. All children tried
    compete for the `budget` places (EAGLE-2, arXiv 2406.16858, sections 4.1 and 4.2).

    root_logits  [D] the drafter's logits after the root, for the D tokens that it can draft
    expand       turns a frontier of b nodes into their logits [b, D]
    sizing       may stop before the limit; None: the limit is the tree's size
    words        [D] ids of these tokens; None: D is V, and a token's place is its id
    """
    sizing = sizing or Sizing()
    device, least = root_logits.device, sizing.begin()
    breadth = min(limit.breadth, root_logits.shape[-1])
    tried = _children(root_logits[None], [None], breadth, least, words)
    level, depth = tried, 1
    seen = np.zeros((1, 0), np.bool_)
    while count := sizing.to_expand(level, depth, limit):
        parents = level[:count]
        frontier, seen = _frontier(parents, seen, depth, device)
        found = _children(expand(frontier), parents, breadth, least, words)
        tried, level = tried + found, sorted(found, key=lambda node: -node.log_prob)
        sizing.drafted(count)
        depth += 1
    return sizing.keep(root, tried, limit)


def best_nodes(tried: Sequence[Node], count: int) -> list[Node]:
    """The `count` nodes with the highest probabilities, in the order of `tried`."""
    # The stable sort keeps a parent before a child that ties with it, so no node loses its parent.
    best = sorted(range(len(tried)), key=lambda place: -tried[place].log_prob)[:count]
    return [tried[place] for place in sorted(best)]


def build_tree(root: int, nodes: Sequence[Node]) -> DraftTree:
    """A tree of nodes, parents before their children. Sets the place of each node."""
    for place, node in enumerate(nodes, 1):
        node.place = place
    return DraftTree(
        (root, *(node.token for node in nodes)),
        (-1, *(node.parent.place if node.parent else 0 for node in nodes)),
        (0, *(node.depth for node in nodes)),
        (0.0, *(node.log_prob for node in nodes)),
    )


def _frontier(
    parents: Sequence[Node], seen: NDArray[np.bool_], level: int, device: torch.device
) -> tuple[Frontier, NDArray[np.bool_]]:
    """The nodes to expand, and the nodes they see. seen: that of the level above."""
    rows = [node.parent.row if node.parent else 0 for node in parents]
    for row, node in enumerate(parents):
        node.row, node.expanded = row, True
    now = np.concatenate((seen.take(rows, 0), np.eye(len(rows), dtype=np.bool_)), 1)
    names = torch.from_numpy(np.array([[node.token for node in parents], rows])).to(device)
    return Frontier(names[0], names[1], torch.from_numpy(now).to(device), level), now


def _children(
    logits: Tensor, parents: Sequence[Node | None], breadth: int, least: float,
    words: Tensor | None,
) -> list[Node]:  # fmt: skip
    """The most probable next tokens of each parent, best first; None is the root.

    logits  [b, D], with ids `words` as in `grow`
    least   log-probability below which nodes are skipped, except the root's best child
    """
    best_probs, places = torch.log_softmax(logits.float(), dim=-1).topk(breadth, dim=-1)
    best_tokens = places if words is None else words[places]  # [b, breadth]
    found: list[Node] = []
    for parent, log_probs, tokens in zip(
        parents, best_probs.tolist(), best_tokens.tolist(), strict=True
    ):
        so_far, depth = (parent.log_prob, parent.depth + 1) if parent else (0.0, 1)
        for more, token in zip(log_probs, tokens, strict=True):
            log_prob = so_far + more
            if not log_prob >= (least if parent or found else -math.inf):  # NaN ends it, too
                break
            found.append(Node(token, parent, log_prob, depth))
    return found
