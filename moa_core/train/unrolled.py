"""EAGLE-3's training forward: several drafts in a row, each from the one before."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from moa_core.drafters.eagle3 import Eagle3Drafter, Eagle3Net
from moa_core.errors import UserError
from moa_core.model.layers import Rotation
from moa_core.model.target import Target
from moa_core.train.batches import Batch, same_document
from moa_core.train.losses import Stats, Trainee, Weights, entropy_ahead
from moa_core.train.masks import Masks
from moa_core.train.teacher import Lesson

UNROLLED = 5  # drafts in a row, as many as our trees are deep; the authors use 7


class Eagle3Trainee(Trainee):
    """EAGLE-3's training-time test: several drafts in a row, each from the one before.

    It is fed the true tokens and its own features. A draft sees the first drafts of all earlier
    rows, and the later ones of its own row. Cross-entropy alone (arXiv 2503.01840, 3.2).
    """

    net: Eagle3Net

    def __init__(self, drafter: Eagle3Drafter, target: Target, weights: Weights) -> None:
        super().__init__(drafter, target, weights)
        if drafter.net.config.words:
            raise UserError("EAGLE-3 is trained with the target's head: this one has its own.")

    def forward(
        self, batch: Batch, lesson: Lesson, masks: Masks, seed: int
    ) -> tuple[Tensor, Stats]:
        self._drafter.rope.reserve(batch.ids.shape[1] + UNROLLED)
        ahead = [self.net.words(hidden) for hidden in self.features(batch, lesson)]
        loss, entropies = entropy_ahead(self._target[0].head, ahead, batch, lesson)
        return loss, {"cross_entropy": entropies[0], "last": entropies[-1]}

    def features(self, batch: Batch, lesson: Lesson) -> list[Tensor]:
        """The net's output for each draft in a row, [B, T - 1, E]."""
        layers, count = self.net.config.layers, len(self._target[0].layers)
        tapped = torch.cat([lesson.entering[count - layer] for layer in layers], -1)
        hidden = self.net.fuse(tapped.to(self.net.fc.weight.dtype))[:, :-1]
        visible = same_document(batch.segment[:, :-1])  # [B, 1, T - 1, T - 1]
        held: list[tuple[Tensor, Tensor]] = []
        found = []
        for step in range(UNROLLED):
            # Padding behind the end of the row has no loss.
            embedded = F.pad(lesson.embedded[:, 1 + step :], (0, 0, 0, step))
            rotation = self._drafter.rope(batch.positions[:, :-1] + step, hidden)
            hidden = self._next(embedded, hidden, rotation, visible, held)
            found.append(hidden)
        return found

    def _next(
        self,
        embedded: Tensor,
        features: Tensor,
        rotation: Rotation,
        visible: Tensor,
        held: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """The net's forward. held: K and V [B, G, T, d] of earlier drafts; its own are added."""
        layer = self.net.midlayer
        joined, residual = layer.join(embedded, features)
        queries = layer.self_attn.queries(joined, rotation)
        held.append(layer.self_attn.keys_values(joined, rotation))
        mixed = layer.self_attn.o_proj(_attend(queries, held, visible))
        hidden = layer.feed(residual + mixed)
        return self.net.norm(hidden) if self.net.config.norm_output else hidden


def _attend(queries: Tensor, held: list[tuple[Tensor, Tensor]], visible: Tensor) -> Tensor:
    """Attention [B, T, H d] of Q [B, H, T, d] to the drafts in a row.

    The first draft's K and V are masked by `visible` [B, 1, T, T]. Of later drafts a row sees its
    own alone, so their scores are a column, not a matrix: with 7 drafts a quarter of the work.
    """
    each = queries.shape[1] // held[0][0].shape[1]
    (keys, values), *own = [[one.repeat_interleave(each, 1) for one in pair] for pair in held]
    queries = queries * queries.shape[-1] ** -0.5
    scores = (queries @ keys.mT).masked_fill(~visible, -torch.inf)
    columns = [(queries * later).sum(-1, keepdim=True) for later, _ in own]
    weights = torch.cat([scores, *columns], -1).softmax(-1)  # [B, H, T, T + drafts - 1]
    apart = weights[..., keys.shape[2] :].unbind(-1)
    mixed = weights[..., : keys.shape[2]] @ values
    for weight, (_, later) in zip(apart, own, strict=True):
        mixed = mixed + weight[..., None] * later
    return mixed.transpose(1, 2).flatten(2)
