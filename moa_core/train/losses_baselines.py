"""Training forwards of GLIDE, Medusa and an independent drafter."""

from __future__ import annotations

import torch
from torch import Tensor

from moa_core.drafters.medusa import MedusaNet
from moa_core.model.target import Target
from moa_core.train.batches import Batch, same_document
from moa_core.train.losses import Stats, Trainee, soft_entropy
from moa_core.train.masks import Masks, predictable
from moa_core.train.teacher import Lesson

MEDUSA_DECAY = 0.8  # weight of each head against the one before it (Medusa, section 2.2.1)


class GlideTrainee(Trainee):
    """GLIDE's: cross-entropy alone, over blocks like MoA's, with the target's own K and V."""

    def forward(
        self, batch: Batch, lesson: Lesson, masks: list[Masks], seed: int
    ) -> tuple[Tensor, Stats]:
        losses = []
        for draw in masks:
            hidden = self.features(batch, lesson, draw)
            losses.append(soft_entropy(self._target[0].head, hidden, lesson.verdicts, draw.loss))
        entropy = torch.stack(losses).mean()
        return entropy, {"cross_entropy": entropy.detach()}

    def features(self, batch: Batch, lesson: Lesson, masks: Masks) -> Tensor:
        """What the head reads [B, T, E]."""
        self._drafter.rope.reserve(batch.ids.shape[1])
        rotation = self._drafter.rope(batch.positions, lesson.embedded)
        keys, values = lesson.tail.keys[-1], lesson.tail.values[-1]
        read: Tensor = self.net(lesson.embedded, rotation, keys, values, masks.sa, masks.ca)
        return read


class IndependentTrainee(Trainee):
    """Distillation of a small language model: of the target it sees the distributions alone."""

    def forward(
        self, batch: Batch, lesson: Lesson, masks: list[Masks], seed: int
    ) -> tuple[Tensor, Stats]:
        head = self._drafter.small.head
        entropy = soft_entropy(head, self.features(batch), lesson.verdicts, predictable(batch))
        return entropy, {"cross_entropy": entropy.detach()}

    def features(self, batch: Batch) -> Tensor:
        """What the head reads [B, T, E]."""
        small: Target = self._drafter.small
        visible = same_document(batch.segment)
        return small.run_layers(small.embed(batch.ids), batch.positions, visible, None)


class MedusaTrainee(Trainee):
    """Each head against the target's distribution at its own place ahead.

    A head further ahead learns from fewer places, and its loss is a mean over those. Parts of a
    batch are weighed by the first head's places, so sharing out rows changes the loss a little.
    """

    net: MedusaNet

    def forward(
        self, batch: Batch, lesson: Lesson, masks: list[Masks], seed: int
    ) -> tuple[Tensor, Stats]:
        ahead = self.features(lesson.hidden)  # [B, T, K, E]
        loss = predictable(batch)
        total, weights, entropies = torch.zeros((), device=ahead.device), 0.0, []
        for head in range(self.net.config.heads):
            # Row t foretells token t + 2 + head, whose distribution row t + 1 + head holds.
            shift = head + 1
            where = loss[:, shift:] & (batch.segment[:, shift:] == batch.segment[:, :-shift])
            entropy = soft_entropy(
                self._target[0].head, ahead[:, :-shift, head], lesson.verdicts.after(shift), where
            )
            weight = MEDUSA_DECAY**head
            total, weights = total + weight * entropy, weights + weight
            entropies.append(entropy.detach())
        return total / weights, {"cross_entropy": entropies[0]}

    def features(self, hidden: Tensor) -> Tensor:
        """What the head reads for each place ahead [B, T, K, E]."""
        ahead: Tensor = self.net(hidden)
        return ahead
