"""The draft tree grown in buffers: what `tree.grow` does, without asking the host.

The same operators on the same numbers choose the same nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from moa_core.decoding.tree import best_children, rank_worth
from moa_core.static.state import Text


class Growth:
    """One level after the other, and all children ever tried.

    breadth  nodes of a level; depth: levels at most
    static   see `tree.grow`

    tokens   [b] of the newest level; above [b] rows of their parents in the level before
    seen     [b, depth * b] bool: which expanded nodes each may attend to, level by level
    """

    def __init__(self, breadth: int, depth: int, static: bool, device: torch.device) -> None:
        def numbers(count: int) -> Tensor:
            return torch.zeros(count, dtype=torch.long, device=device)

        def floats(count: int) -> Tensor:
            return torch.zeros(count, dtype=torch.float32, device=device)

        self.breadth = breadth
        self.tokens, self.above, self.nodes = (numbers(breadth) for _ in range(3))
        self.sums, self.scores = floats(breadth), floats(breadth)
        self.seen = torch.zeros(breadth, depth * breadth, dtype=torch.bool, device=device)
        tried = self.tried(depth)
        self.tried_tokens, self.tried_parents = numbers(tried), numbers(tried)
        self.tried_sums, self.tried_scores = floats(tried), floats(tried)
        self._ranks = rank_worth(breadth, device) if static else None
        self._itself = torch.eye(breadth, dtype=torch.bool, device=device)

    def tried(self, depth: int) -> int:
        """Children ever tried once so many levels are there."""
        return self.breadth + (depth - 1) * self.breadth**2

    def begin(self, logits: Tensor) -> None:
        """The first level, from the logits [1, V] after the root."""
        sums, tokens = (found[0] for found in best_children(logits, self.breadth))
        scores = sums if self._ranks is None else self._ranks
        self._note(0, tokens, torch.zeros_like(tokens), sums, scores)
        names = torch.arange(1, self.breadth + 1, device=tokens.device)
        self._go_on(tokens, torch.zeros_like(tokens), names, sums, scores)
        self.seen[:, : self.breadth] = self._itself

    def step(self, level: int, logits: Tensor) -> None:
        """The level below the newest one, which has this number, from its logits [b, V]."""
        b = self.breadth
        found, tokens = best_children(logits, b)
        sums, tokens = (found + self.sums[:, None]).flatten(), tokens.flatten()
        scores = sums if self._ranks is None else (self._ranks + self.scores[:, None]).flatten()
        parents = self.nodes[:, None].expand(-1, b).flatten()
        done = self.tried(level)
        self._note(done, tokens, parents, sums, scores)
        best_scores, best = scores.topk(b)
        above = best // b
        seen = torch.cat([self.seen[above, : level * b], self._itself], 1)
        self._go_on(tokens[best], above, done + 1 + best, sums[best], best_scores)
        self.seen[:, : (level + 1) * b] = seen

    def _note(
        self, done: int, tokens: Tensor, parents: Tensor, sums: Tensor, scores: Tensor
    ) -> None:
        part = slice(done, done + len(tokens))
        self.tried_tokens[part] = tokens
        self.tried_parents[part] = parents
        self.tried_sums[part] = sums
        self.tried_scores[part] = scores

    def _go_on(
        self, tokens: Tensor, above: Tensor, nodes: Tensor, sums: Tensor, scores: Tensor
    ) -> None:
        self.tokens.copy_(tokens)
        self.above.copy_(above)
        self.nodes.copy_(nodes)
        self.sums.copy_(sums)
        self.scores.copy_(scores)


class Nodes:
    """A tree of n nodes to verify, the root first.

    tokens, parents (-1 for the root), depths [n]; sums [n] as `DraftTree.log_probs`;
    seen [n, n] as `DraftTree.ancestors`
    """

    def __init__(self, count: int, device: torch.device) -> None:
        self.count = count
        self.tokens = torch.zeros(count, dtype=torch.long, device=device)
        self.parents = torch.full_like(self.tokens, -1)
        self.depths = torch.zeros_like(self.tokens)
        self.sums = torch.zeros(count, dtype=torch.float32, device=device)
        self.seen = torch.eye(count, dtype=torch.bool, device=device)

    def only_root(self, text: Text) -> None:
        """Plain decoding's tree."""
        self.tokens.copy_(text.root)

    def choose(self, text: Text, growth: Growth, depth: int) -> None:
        """Keep the most probable of the children tried, so many levels deep."""
        tried, b, device = growth.tried(depth), growth.breadth, self.tokens.device
        # As in `tree._rerank`: stable, so that of equals the parent stays.
        order = torch.sort(growth.tried_scores[:tried], descending=True, stable=True).indices
        kept = order[: self.count - 1].sort().values
        places = torch.zeros(tried + 1, dtype=torch.long, device=device)
        places[kept + 1] = torch.arange(1, self.count, device=device)
        parents = places[growth.tried_parents[kept]]
        self.tokens[:1] = text.root
        self.tokens[1:] = growth.tried_tokens[kept]
        self.parents[1:] = parents
        self.depths[1:] = (kept >= b) * (1 + (kept - b) // (b * b)) + 1
        self.sums[1:] = growth.tried_sums[kept]
        self._look_up(depth)

    def _look_up(self, depth: int) -> None:
        seen = torch.eye(self.count, dtype=torch.bool, device=self.seen.device)
        above = self.parents.clamp(min=0)
        for _ in range(depth):
            seen = seen | seen[above]
        self.seen.copy_(seen)
