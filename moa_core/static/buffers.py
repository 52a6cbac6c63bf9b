"""What keeps its place while graphs are replayed: K and V, the text, the tree that grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from moa_core.decoding.tree import DraftTree, best_children, rank_worth
from moa_core.model.cache import KVCache

STEP = 1024  # attention goes over whole steps of slots: a piece is captured for each number of them


def bucket(length: int) -> int:
    """The slots that attention goes over for a text of this length: up to half as many again.

    Few different ones, as each is captured anew: 1, 2, 3, 4, 6, 8, 12, 16 ... steps.
    """
    steps = -(-length // STEP)
    coarse = max(1, (1 << max(steps - 1, 1).bit_length() - 1) // 2)
    return -(-steps // coarse) * coarse * STEP


class Slots:
    """A cache's memory. Prefill fills it by way of the cache; from then on it is written here.

    It must hold numbers everywhere: masked slots take part in attention, with weight 0.
    """

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache
        self.whole = cache.read(0, cache.capacity)  # [layers, 2, G, C, d], a view
        self.whole.zero_()

    def at(self, slots: Tensor, reach: int) -> Any:
        """The cache of a forward that writes at these slots [n] and attends to those below
        `reach`."""
        return Window(self.whole, slots, reach)

    def rows(self, slots: Tensor) -> Tensor:
        """K and V at these slots [n], of all layers: [layers, 2, G, n, d], a copy."""
        return self.whole.index_select(3, slots)

    def move(self, source: Tensor, goal: Tensor) -> None:
        """Copy what lies at some slots [n] to others [n]."""
        self.whole.index_copy_(3, goal, self.rows(source))


@dataclass(frozen=True)
class Window:
    """What a layer takes as its cache."""

    whole: Tensor
    slots: Tensor
    reach: int

    @property
    def capacity(self) -> int:
        return self.whole.shape[3]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write [1, G, n, d] at the slots; return K and V [1, G, reach, d]."""
        view = self.whole[layer_idx]
        view[0].index_copy_(1, self.slots, key_states[0])
        view[1].index_copy_(1, self.slots, value_states[0])
        return view[0:1, :, : self.reach], view[1:2, :, : self.reach]


def below(limit: Tensor, rows: int, reach: int) -> Tensor:
    """[1, 1, rows, reach] bool: every row sees the slots below a limit [] or its own [rows]."""
    places = torch.arange(reach, device=limit.device)
    return (places < limit.reshape(-1, 1)).expand(rows, reach)[None, None]


def with_drafts(first: Tensor, seen: Tensor, reach: int) -> Tensor:
    """[1, 1, n, reach] bool: the slots below `first` [], then what each node [n, s] may see."""
    nodes, count = seen.shape
    mask = below(first, nodes, reach)[0, 0].clone()
    mask.index_copy_(1, first + torch.arange(count, device=first.device), seen)
    return mask[None, None]


class Text:
    """How far a run is.

    rows     tokens that a cycle verifies at most: the root and a path; R in shapes below
    known    [] verified tokens, so that the root's position is the same number
    gained   [] how many of them are new: the drafter has yet to take them in
    newest   [R] what follows each of those: accepted drafts, then the root, then anything
    hidden   [R, E] the target's last hidden states at those
    slots    K and V of the target
    draws    [R] of the next tokens, at a temperature: by how far below the root
    """

    def __init__(self, slots: Slots, rows: int, width: int) -> None:
        device = slots.whole.device
        self.rows, self.slots = rows, slots
        self.known = torch.zeros((), dtype=torch.long, device=device)
        self.gained = torch.ones((), dtype=torch.long, device=device)
        self.newest = torch.zeros(rows, dtype=torch.long, device=device)
        self.hidden = torch.zeros(rows, width, dtype=slots.whole.dtype, device=device)
        self.draws = torch.zeros(rows, device=device)
        self.count = torch.arange(rows, device=device)

    @property
    def root(self) -> Tensor:
        """[1] the newest token, which the target has not read yet."""
        return self.newest.index_select(0, (self.gained - 1).reshape(1))

    @property
    def new(self) -> Tensor:
        """[R] positions of the newly verified tokens, and beyond them of anything."""
        return self.known - self.gained + self.count

    def begin(self, ids: Sequence[int], hidden: Tensor, root: int) -> None:
        """After the prefill: the prompt's last token, of hidden state [1, E], counts as new."""
        self.known.fill_(len(ids))
        self.gained.fill_(1)
        self.newest.fill_(root)
        self.hidden.copy_(hidden.expand(self.rows, -1))


class Growth:
    """A tree that grows as in `tree.grow`, one level after the other, and all children ever tried.

    breadth  nodes of a level; depth: levels at most
    static   see `tree.grow`

    tokens   [b] of the newest level; above [b] rows of their parents in the level before
    seen     [b, depth * b] bool: which expanded nodes each may attend to, level by level
    """

    def __init__(self, breadth: int, depth: int, static: bool, device: torch.device) -> None:
        tried = self.tried(breadth, depth)
        self.breadth = breadth
        ids = torch.zeros(3, breadth, dtype=torch.long, device=device)
        self.tokens, self.above, self.nodes = ids
        self.sums, self.scores = torch.zeros(2, breadth, device=device)
        self.seen = torch.zeros(breadth, depth * breadth, dtype=torch.bool, device=device)
        self.tried_ids = torch.zeros(2, tried, dtype=torch.long, device=device)  # token, parent
        self.tried_values = torch.zeros(2, tried, device=device)  # sum of log-probs, score
        self._ranks = rank_worth(breadth, device) if static else None
        self._itself = torch.eye(breadth, dtype=torch.bool, device=device)

    @staticmethod
    def tried(breadth: int, depth: int) -> int:
        """Children ever tried once so many levels are there."""
        return breadth + (depth - 1) * breadth**2

    def begin(self, logits: Tensor) -> None:
        """The first level, from the logits [1, V] after the root."""
        sums, tokens = (found[0] for found in best_children(logits, self.breadth))
        scores = sums if self._ranks is None else self._ranks
        above = torch.zeros_like(tokens)
        names = torch.arange(1, self.breadth + 1, device=tokens.device)
        self._note(0, tokens, above, sums, scores)
        self._go_on(tokens, above, names, sums, scores)
        self.seen[:, : self.breadth] = self._itself

    def step(self, level: int, logits: Tensor) -> None:
        """The level below the newest one, which has this number, from its logits [b, V]."""
        b, done = self.breadth, self.tried(self.breadth, level)
        found, tokens = best_children(logits, b)
        sums, tokens = (found + self.sums[:, None]).flatten(), tokens.flatten()
        scores = sums if self._ranks is None else (self._ranks + self.scores[:, None]).flatten()
        self._note(done, tokens, self.nodes[:, None].expand(-1, b).flatten(), sums, scores)
        best_scores, best = scores.topk(b)
        above = best // b
        seen = torch.cat([self.seen[above, : level * b], self._itself], 1)
        self._go_on(tokens[best], above, done + 1 + best, sums[best], best_scores)
        self.seen[:, : (level + 1) * b] = seen

    def _note(self, at: int, tokens: Tensor, parents: Tensor, sums: Tensor, scores: Tensor) -> None:
        part = slice(at, at + len(tokens))
        self.tried_ids[:, part] = torch.stack([tokens, parents])
        self.tried_values[:, part] = torch.stack([sums, scores])

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

    ids   [3, n] tokens, parents (-1 for the root), depths
    sums  [n] as `DraftTree.log_probs`
    seen  [n, n] as `DraftTree.ancestors`
    """

    def __init__(self, count: int, device: torch.device) -> None:
        self.count = count
        self.ids = torch.zeros(3, count, dtype=torch.long, device=device)
        self.tokens, self.parents, self.depths = self.ids
        self.parents.fill_(-1)
        self.sums = torch.zeros(count, device=device)
        self.seen = torch.eye(count, dtype=torch.bool, device=device)

    def choose(self, text: Text, growth: Growth, depth: int) -> None:
        """Keep the most probable of the children tried, so many levels deep."""
        tried, b = growth.tried(growth.breadth, depth), growth.breadth
        # As in `tree._rerank`: stable, so that of equals the parent stays.
        order = torch.sort(growth.tried_values[1, :tried], descending=True, stable=True).indices
        kept = order[: self.count - 1].sort().values
        places = torch.zeros(tried + 1, dtype=torch.long, device=kept.device)
        places[kept + 1] = torch.arange(1, self.count, device=kept.device)
        tokens, parents = growth.tried_ids[:, kept]
        self.tokens[:1] = text.root
        self.tokens[1:] = tokens
        self.parents[1:] = places[parents]
        self.depths[1:] = (kept >= b) * (1 + (kept - b) // (b * b)) + 1
        self.sums[1:] = growth.tried_values[0, kept]
        seen = torch.eye(self.count, dtype=torch.bool, device=kept.device)
        above = self.parents.clamp(min=0)
        for _ in range(depth):
            seen = seen | seen[above]
        self.seen.copy_(seen)

    def tell(self) -> DraftTree:
        """The tree, copied to the host at once: float32 is exact for whole numbers up to 2**24."""
        tokens, parents, depths, sums = torch.cat([self.ids.float(), self.sums[None]]).tolist()
        ids, above, depth = (tuple(map(int, numbers)) for numbers in (tokens, parents, depths))
        return DraftTree(ids, above, depth, tuple(sums))
