"""K and V written and read at positions that lie in tensors: what a replayed piece can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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

    def at(self, slots: Tensor, reach: int) -> Window:
        """For a forward that writes at these slots [n] and attends to those below `reach`."""
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
        """Slots that there are."""
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
