"""The draft tree: how it grows, which nodes are kept, and what each node may attend to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moa_core.errors import UserError


@dataclass(frozen=True)
class TreeSettings:
    """Shape of the draft tree.

    depth    drafted levels below the root
    breadth  nodes expanded per level, and children tried per expanded node
    budget   drafted nodes kept after reranking, root not counted
    auto     each cycle's tree is sized by measured costs and gains, and these are its limits
    """

    depth: int = 5
    breadth: int = 4
    budget: int = 12
    auto: bool = False

    def __post_init__(self) -> None:
        for name, limit in (("depth", 32), ("breadth", 64), ("budget", 1024)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
                raise UserError(f"Tree {name} must be a whole number from 1 to {limit}.")

    def as_dict(self) -> dict[str, Any]:
        """As traces and results keep it; auto only where it is so, as they were before it was."""
        kept = asdict(self)
        return kept if self.auto else {name: kept[name] for name in kept if name != "auto"}

    def __str__(self) -> str:
        return "auto" if self.auto else f"{self.depth}-{self.breadth}-{self.budget}"


AUTO = TreeSettings(12, 8, 48, auto=True)


def named_tree(text: str, others: str = "auto") -> TreeSettings:
    """A tree written auto, or depth-breadth-budget, as in 5-4-12. UserError for anything else.

    others  what else may be written where this is asked for
    """
    if text == "auto":
        return AUTO
    parts = text.split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise UserError(
            f"{text!r} is no tree: write depth-breadth-budget, as in 5-4-12, or {others}."
        )
    depth, breadth, budget = map(int, parts)
    return TreeSettings(depth, breadth, budget)


RANK_DECAY = 2.3  # of how often the target takes the child of each rank: a power law, assumed


@dataclass(frozen=True)
class DraftTree:
    """Tokens that a drafter proposes after the root, the newest token, which is already sure.

    Node 0 is the root; a parent always comes before its children.
    tokens     token id of each node
    parents    index of each node's parent, -1 for the root
    depths     levels below the root, 0 for the root
    log_probs  the drafter's cumulative log-probability from the root, 0 for the root
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    log_probs: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def only_root(cls, token: int) -> DraftTree:
        """The tree of a drafter that proposes nothing: plain decoding."""
        return cls((token,), (-1,), (0,), (0.0,))

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
        """[n, n] bool: row i marks node i and all above it, which is all it may attend to."""
        seen = np.eye(len(self), dtype=bool)  # a torch operation a node would take longer
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] |= seen[parent]
        return torch.from_numpy(seen)


@dataclass(frozen=True)
class Frontier:
    """One level of nodes for a drafter to expand, all of the same depth.

    tokens   [b] token ids
    parents  [b] each one's parent as a row of the previous frontier; 0 (the root) at level 1
    seen     [b, s] bool over every node expanded so far, this level last: itself and its ancestors
    level    depth of these nodes, 1 for the root's children
    """

    tokens: Tensor
    parents: Tensor
    seen: Tensor
    level: int


def grow(
    root: int,
    root_logits: Tensor,
    expand: Callable[[Frontier], Tensor],
    settings: TreeSettings,
    static: bool = False,
) -> DraftTree:
    """Grow a tree by the drafter's cumulative log-probability, then keep the best nodes.

    Each level expands the `breadth` most probable nodes of the last one; all children ever tried
    compete for the `budget` places (EAGLE-2, arXiv 2406.16858, sections 4.1 and 4.2).

    root_logits  [V] the drafter's logits after the root
    expand       turns a frontier of b nodes into their logits [b, V]
    static       choose by each child's rank alone, so that the tree always has the same shape, as
                 in EAGLE-1 and Medusa
    """
    breadth = min(settings.breadth, root_logits.shape[-1])
    device = root_logits.device
    ranks = rank_worth(breadth, device) if static else None
    log_probs, tokens = best_children(root_logits[None], breadth)
    log_probs, tokens = log_probs[0], tokens[0]  # [b]
    scores = log_probs if ranks is None else ranks  # what nodes are chosen by
    above = torch.zeros_like(tokens)  # [b] parents, as rows of the last frontier
    nodes = torch.arange(1, breadth + 1, device=device)  # [b] names among all children ever tried
    tried = [(tokens, torch.zeros_like(tokens), scores, log_probs)]
    seen = itself = torch.eye(breadth, dtype=torch.bool, device=device)
    count = 1 + breadth
    for level in range(1, settings.depth):
        logits = expand(Frontier(tokens, above, seen, level))  # [b, V]
        child_probs, child_tokens = best_children(logits, breadth)  # [b, breadth]
        child_probs = (child_probs + log_probs[:, None]).flatten()
        child_scores = child_probs if ranks is None else (ranks + scores[:, None]).flatten()
        child_tokens = child_tokens.flatten()
        above = nodes[:, None].expand(-1, breadth).flatten()
        tried.append((child_tokens, above, child_scores, child_probs))
        scores, best = child_scores.topk(breadth)
        log_probs, above = scores if ranks is None else child_probs[best], best // breadth
        tokens, nodes = child_tokens[best], count + best
        seen = torch.cat([seen[above], itself], 1)  # [breadth, (level + 1) * breadth]
        count += breadth * breadth
    return _rerank(root, tried, settings)


def best_children(logits: Tensor, breadth: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities and ids [b, breadth] of the most probable tokens after logits [b, V]."""
    return torch.log_softmax(logits.float(), dim=-1).topk(breadth, dim=-1)


def rank_worth(breadth: int, device: torch.device) -> Tensor:
    """[breadth] log of how often the target takes the child of each rank: a power law, assumed."""
    return math.log(0.7) - RANK_DECAY * torch.arange(1, breadth + 1, device=device).log()


def _rerank(
    root: int, tried: list[tuple[Tensor, Tensor, Tensor, Tensor]], settings: TreeSettings
) -> DraftTree:
    """Keep the `budget` most probable nodes. Every tensor crosses to the host once, here."""
    tokens, parents, scores, log_probs = map(torch.cat, zip(*tried, strict=True))
    # A child never scores above its parent but may tie with it (a probability that rounds to 1):
    # the stable sort then keeps the parent, which has the lower index, so no node loses its parent.
    kept = torch.sort(scores, descending=True, stable=True).indices[: settings.budget].sort().values
    packed = torch.stack(
        [kept.float() + 1, tokens[kept].float(), parents[kept].float(), log_probs[kept]]
    )
    names, token_ids, parent_names, sums = packed.tolist()  # float32 is exact up to 2**24
    place = {0: 0} | {int(name): index for index, name in enumerate(names, start=1)}
    above = [-1] + [place[int(name)] for name in parent_names]
    depths = [0]
    for parent in above[1:]:
        depths.append(depths[parent] + 1)
    return DraftTree((root, *map(int, token_ids)), tuple(above), tuple(depths), (0.0, *sums))
