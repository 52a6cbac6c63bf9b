"""What changes from cycle to cycle, in tensors that keep their place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from moa_core.static.slots import Slots


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

    def __init__(self, slots: Slots, rows: int, width: int, dtype: torch.dtype) -> None:
        device = slots.whole.device
        self.rows, self.slots = rows, slots
        self.known = torch.zeros((), dtype=torch.long, device=device)
        self.gained = torch.ones((), dtype=torch.long, device=device)
        self.newest = torch.zeros(rows, dtype=torch.long, device=device)
        self.hidden = torch.zeros(rows, width, dtype=dtype, device=device)
        self.draws = torch.zeros(rows, device=device)
        self.count = torch.arange(rows, device=device)

    @property
    def root(self) -> Tensor:
        """[1] the newest token, of which the target has learnt nothing yet."""
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
