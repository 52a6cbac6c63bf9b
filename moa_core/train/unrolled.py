"""EAGLE-3's training forward: several drafts in a row, each from the one before."""

import torch
import torch.nn.functional as F
from torch import Tensor

from moa_core.drafters.eagle3 import Eagle3Drafter, Eagle3Net
from moa_core.errors import UserError
from moa_core.model.layers import Rotation
from moa_core.model.target import Target
from moa_core.train.batches import Batch, same_document
from moa_core.train.losses import Loss, Trainee, Weights, entropy_ahead, noise
from moa_core.train.masks import Masks, predictable
from moa_core.train.teacher import Lesson

UNROLLED = 5  # drafts in a row, as many as our trees are deep; the authors use 7
LATER = 0.25  # share of the rows that are drafted on from: neighbours teach much the same
Pairs = list[tuple[Tensor, Tensor]]  # one for each draft in a row


class Eagle3Trainee(Trainee):
    """EAGLE-3's training-time test: it is fed the true tokens and its own features.

    A draft sees the first drafts of all earlier rows, and the later ones of its own row, so a share
    of the rows is enough for later drafts. Cross-entropy alone (arXiv 2503.01840, 3.2).
    """

    net: Eagle3Net

    def __init__(self, drafter: Eagle3Drafter, target: Target, weights: Weights) -> None:
        super().__init__(drafter, target, weights)
        if drafter.net.config.words:
            raise UserError("EAGLE-3 is trained with the target's head: this one has its own.")

    def forward(self, batch: Batch, lesson: Lesson, masks: Masks, seed: int) -> Loss:
        self._drafter.rope.reserve(batch.ids.shape[1] + UNROLLED)
        reply, segment = predictable(batch), batch.segment
        # Rows whose last draft has a loss come first.
        least = reply[:, UNROLLED:] & (segment[:, UNROLLED:] == segment[:, :-UNROLLED])
        least = F.pad(least, (0, UNROLLED - 1))  # [B, T - 1]
        order = noise(least, seed, batch.rows.tolist()) + least
        chosen = order.topk(max(1, round(LATER * order.shape[1]))).indices
        drafts = self.features(batch, lesson, chosen)
        states = [(self.net.head_input(hidden), places) for hidden, places in drafts]
        loss, entropies = entropy_ahead(states, batch, lesson)
        return loss, {"cross_entropy": entropies[0], "last": entropies[-1]}

    def missing(self, batch: Batch, lesson: Lesson, masks: Masks) -> tuple[Tensor, Tensor]:
        ((found, _),) = self.features(batch, lesson)
        return lesson.hidden[:, 1:] / self.net.norm.weight - found, predictable(batch)[:, 1:]

    def features(self, batch: Batch, lesson: Lesson, chosen: Tensor | None = None) -> Pairs:
        """The net's output for each draft in a row [B, n, E], and its rows [B, n].

        chosen  rows [B, m] that are drafted on from; None: only the first draft, made in all rows
        """
        layers, count = self.net.config.layers, len(self._target[0].layers)
        tapped = torch.cat([lesson.entering[count - layer][:, :-1] for layer in layers], -1)
        hidden = self.net.fuse(tapped.to(self.net.fc.weight.dtype))
        visible = same_document(batch.segment[:, :-1])  # [B, 1, T - 1, T - 1]
        places = torch.arange(hidden.shape[1], device=hidden.device).expand(len(hidden), -1)
        row = torch.arange(len(hidden), device=hidden.device)[:, None]
        held, found = Pairs(), Pairs()
        for step in range(1 if chosen is None else UNROLLED):
            if chosen is not None and step == 1:
                hidden, visible, places = hidden[row, chosen], visible[row, :, chosen], chosen
                visible = visible.transpose(1, 2)  # [B, 1, m, T - 1]
            # Padding behind the end of the row has no loss.
            embedded = F.pad(lesson.embedded, (0, 0, 0, step))[row, places + 1 + step]
            at = batch.positions[row, places] + step
            hidden = self._next(embedded, hidden, self._drafter.rope(at, hidden), visible, held)
            found.append((hidden, places))
        return found

    def _next(
        self, embedded: Tensor, features: Tensor, rotation: Rotation, visible: Tensor, held: Pairs
    ) -> Tensor:
        """The net's forward. held: K and V [B, G, n, d] of earlier drafts; its own are added."""
        layer = self.net.midlayer
        joined, residual = layer.join(embedded, features)
        queries = layer.self_attn.queries(joined, rotation)
        held.append(layer.self_attn.keys_values(joined, rotation))
        mixed = layer.self_attn.o_proj(_attend(queries, held, visible))
        hidden = layer.feed(residual + mixed)
        return self.net.norm(hidden) if self.net.config.norm_output else hidden


def _attend(queries: Tensor, held: Pairs, visible: Tensor) -> Tensor:
    """Attention [B, n, H d] of Q [B, H, n, d] to the drafts in a row.

    The first draft's K and V are masked by `visible` [B, 1, n, T]. Of later drafts a row sees its
    own alone, so their scores are a column, not a matrix: with 7 drafts a quarter of the work.
    """
    each = queries.shape[1] // held[0][0].shape[1]  # H / G
    (keys, values), *own = [[one.repeat_interleave(each, 1) for one in pair] for pair in held]
    queries = queries * queries.shape[-1] ** -0.5
    scores = (queries @ keys.mT).masked_fill(~visible, -torch.inf)
    columns = [(queries * later).sum(-1, keepdim=True) for later, _ in own]
    weights = torch.cat([scores, *columns], -1).softmax(-1)  # [B, H, n, T + drafts - 1]
    apart = weights[..., keys.shape[2] :].unbind(-1)
    mixed = weights[..., : keys.shape[2]] @ values
    for weight, (_, later) in zip(apart, own, strict=True):
        mixed = mixed + weight[..., None] * later
    return mixed.transpose(1, 2).flatten(2)
