"""EAGLE-3's training forward: several drafts in a row, each from the one before."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from moa_core.drafters.eagle3 import Eagle3Drafter, Eagle3Net
from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.train.batches import Batch, same_document
from moa_core.train.losses import Stats, Trainee, soft_entropy
from moa_core.train.masks import Masks, predictable
from moa_core.train.teacher import Lesson

UNROLLED = 7  # drafts in a row
EAGLE3_DECAY = 0.8  # weight of each against the one before


class Eagle3Trainee(Trainee):
    """EAGLE-3's training-time test: several drafts in a row, each from the one before.

    The true tokens are fed, the features are the head's own. A draft sees the text as of the first
    one, and of the later ones those of its own row. Cross-entropy alone (arXiv 2503.01840, 3.2).
    """

    net: Eagle3Net

    def __init__(self, drafter: Eagle3Drafter, target: Target, steps: int = UNROLLED) -> None:
        super().__init__(drafter, target)
        self._steps = steps
        if drafter.net.config.words:
            raise UserError("EAGLE-3 is trained with the target's head: this one has its own.")

    def forward(
        self, batch: Batch, lesson: Lesson, masks: list[Masks], seed: int
    ) -> tuple[Tensor, Stats]:
        self._drafter.rope.reserve(batch.ids.shape[1] + self._steps)
        reply, head = predictable(batch), self._target[0].head
        total, weights, entropies = torch.zeros((), device=reply.device), 0.0, []
        for step, hidden in enumerate(self.features(batch, lesson)):
            ahead = step + 1  # row t has been fed token t + ahead
            segment = batch.segment
            where = reply[:, ahead:] & (segment[:, ahead:] == segment[:, :-ahead])
            words = self.net.words(hidden)[:, : where.shape[1]]
            entropy = soft_entropy(head, words, lesson.verdicts.after(ahead), where)
            weight = EAGLE3_DECAY**step
            total, weights = total + weight * entropy, weights + weight
            entropies.append(entropy.detach())
        return total / weights, {"cross_entropy": entropies[0], "last": entropies[-1]}

    def features(self, batch: Batch, lesson: Lesson) -> list[Tensor]:
        """What each draft in a row foretells, [B, T - 1, E] each."""
        layers, count = self.net.config.layers, len(self._target[0].layers)
        tapped = torch.cat([lesson.entering[count - layer] for layer in layers], -1)
        hidden = self.net.fuse(tapped.to(self.net.fc.weight.dtype))[:, :-1]
        mask = same_document(batch.segment[:, :-1])  # [B, 1, T - 1, T - 1]
        own = torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device).expand_as(mask)
        cache: Any = _Unrolled()
        found = []
        for step in range(self._steps):
            # What would be fed after the end of the row counts for nothing.
            embedded = F.pad(lesson.embedded[:, 1 + step :], (0, 0, 0, step))
            rotation = self._drafter.rope(batch.positions[:, :-1] + step, hidden)
            hidden = self.net(embedded, hidden, rotation, mask, cache)
            mask = torch.cat([mask, own], -1)
            found.append(hidden)
        return found


class _Unrolled:
    """A stand-in for the cache: K and V of all drafts so far, one after another."""

    def __init__(self) -> None:
        self._held: tuple[Tensor, Tensor] | None = None

    def update(self, keys: Tensor, values: Tensor, place: int) -> tuple[Tensor, Tensor]:
        if self._held is not None:
            keys, values = (
                torch.cat(pair, 2) for pair in zip(self._held, (keys, values), strict=True)
            )
        self._held = keys, values
        return self._held
