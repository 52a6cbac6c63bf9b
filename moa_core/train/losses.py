"""Training forwards of the drafters: from a target's lesson to a loss."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moa_core.drafters.eagle import EagleNet
from moa_core.drafters.moa import MoANet
from moa_core.drafters.tandem import TandemNet
from moa_core.model.target import Target
from moa_core.train.batches import Batch, same_document
from moa_core.train.masks import Masks, predictable
from moa_core.train.teacher import Lesson, Verdicts

Loss = tuple[Tensor, dict[str, Tensor]]
DECAY = 0.8  # weight of each draft ahead against the one before it (Medusa, section 2.2.1)
NOISE = 0.2  # width of the uniform noise on EAGLE's features in rows of 512 tokens; less in longer


@dataclass(frozen=True)
class Weights:
    """Weights of the two losses, the authors' by default."""

    cross_entropy: float = 0.1  # against the target's distribution
    feature: float = 1.0  # SmoothL1 to the target's last hidden state


class Trainee(nn.Module, ABC):
    """A drafter being trained. Its forward pass returns the loss."""

    net: nn.Module

    def __init__(self, drafter: Any, target: Target, weights: Weights) -> None:
        super().__init__()
        self.net = drafter.net
        self._drafter, self._weights = drafter, weights
        self._target = (target,)  # in a tuple, so that its weights are not this module's

    @abstractmethod
    def forward(self, batch: Batch, lesson: Lesson, masks: Masks, seed: int) -> Loss:
        """Mean loss over the predictable reply tokens, and its parts.

        seed  of the method's noise
        """

    def missing(self, batch: Batch, lesson: Lesson, masks: Masks) -> tuple[Tensor, Tensor]:
        """What the features lack of the target's [B, n, E], and where that matters [B, n] bool.

        With TLI, the features are what enters the target's last layers.
        """
        raise NotImplementedError


class StatesTrainee(Trainee):
    """Any drafter with `states`: cross-entropy against the target's distributions."""

    def forward(self, batch: Batch, lesson: Lesson, masks: Masks, seed: int) -> Loss:
        visible = same_document(batch.segment)
        before = F.pad(lesson.hidden, (0, 0, 1, -1))  # rows [0, T - 1), one later
        states = self._drafter.states(lesson.embedded, before, batch.positions, visible)
        entropy = soft_entropy(states, lesson.verdicts, predictable(batch))
        return entropy, {"cross_entropy": entropy.detach()}


class MoATrainee(Trainee):
    """MoA's training forward. Its logits equal those of the drafting path, draft by draft."""

    net: MoANet

    def forward(self, batch: Batch, lesson: Lesson, masks: Masks, seed: int) -> Loss:
        hidden, before_tail = self._hidden(batch, lesson, masks)
        entropy = soft_entropy(hidden, lesson.verdicts, masks.loss)
        feature = _smooth(hidden, lesson.hidden, masks.loss)
        stats = {"cross_entropy": entropy.detach(), "feature": feature.detach()}
        if tli := self._drafter.tli:
            entering = _smooth(before_tail, lesson.entering[tli], masks.loss)
            stats["entering"] = entering.detach()
            feature = 0.5 * feature + 0.5 * entering
        return self._weights.cross_entropy * entropy + self._weights.feature * feature, stats

    def missing(self, batch: Batch, lesson: Lesson, masks: Masks) -> tuple[Tensor, Tensor]:
        tli = self._drafter.tli
        wanted = lesson.entering[tli] if tli else lesson.hidden
        return wanted - self._hidden(batch, lesson, masks)[1], masks.loss

    def _hidden(self, batch: Batch, lesson: Lesson, masks: Masks) -> tuple[Tensor, Tensor]:
        # LSA is the costly part: it runs for the positions that CA sees in a row with a loss.
        seen = (masks.ca & masks.loss[:, None, :, None]).any(2)[:, 0]  # [B, T]
        dense = self.net.memory(lesson.vectors[seen], self._drafter.layer_rope)  # [n, E]
        memory = dense.new_zeros(*seen.shape, dense.shape[-1]).index_put((seen,), dense)
        for rope in (self._drafter.sa_rope, self._drafter.ca_rope):
            rope.reserve(batch.ids.shape[1])
        rotation = self._drafter.ca_rope(batch.positions, memory)
        remembered = self.net.cross_attention.memorise(memory, rotation)
        return self.features(batch, lesson, masks, remembered)

    def features(
        self, batch: Batch, lesson: Lesson, masks: Masks, remembered: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The head's input, and CA's output before TLI, both [B, T, E]."""
        drafter, tli = self._drafter, self._drafter.tli
        rotation = drafter.sa_rope(batch.positions, lesson.embedded)
        hidden = self.net.self_attention(lesson.embedded, rotation, mask=masks.sa)
        rotation = drafter.ca_rope(batch.positions, hidden)
        hidden = self.net.cross_attention.attend(hidden, rotation, *remembered, masks.ca)
        if not tli:
            return hidden, hidden
        cache = _TrueFirst(lesson.tail) if masks.replaced is None else None
        if masks.replaced is not None:
            hidden = torch.where(masks.replaced[..., None], lesson.entering[tli], hidden)
        run = self._target[0].run_layers
        return run(hidden, batch.positions, masks.tail, cache, last=tli), hidden


class _TrueFirst:
    """In place of a cache: the target's own K and V, then those of the drafted states."""

    def __init__(self, tail: Sequence[tuple[Tensor, Tensor]] | Tensor) -> None:
        self._tail = tail

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        true_keys, true_values = self._tail[layer_idx]
        return torch.cat([true_keys, keys], 2), torch.cat([true_values, values], 2)


class EagleTrainee(Trainee):
    """EAGLE's training forward: one step from true features with uniform noise."""

    net: EagleNet

    def forward(self, batch: Batch, lesson: Lesson, masks: Masks, seed: int) -> Loss:
        features = lesson.hidden[:, :-1]
        draw = noise(features, seed, batch.rows.tolist()) - 0.5
        features = features + (draw * NOISE * 512 / batch.ids.shape[1]).to(features.dtype)
        self._drafter.rope.reserve(batch.ids.shape[1])
        hidden = self.features(batch, lesson, features)
        loss = predictable(batch)[:, 1:]  # row i has been fed token i + 1
        entropy = soft_entropy(hidden, lesson.verdicts, loss, ahead=1)
        feature = _smooth(hidden, lesson.hidden[:, 1:], loss)
        stats = {"cross_entropy": entropy.detach(), "feature": feature.detach()}
        return self._weights.cross_entropy * entropy + self._weights.feature * feature, stats

    def missing(self, batch: Batch, lesson: Lesson, masks: Masks) -> tuple[Tensor, Tensor]:
        found = self.features(batch, lesson, lesson.hidden[:, :-1])
        return lesson.hidden[:, 1:] - found, predictable(batch)[:, 1:]

    def features(self, batch: Batch, lesson: Lesson, before: Tensor) -> Tensor:
        """The head's input at tokens 1.., from the features before them, [B, T - 1, E]."""
        joined = self.net.join(lesson.embedded[:, 1:], before)
        rotation = self._drafter.rope(batch.positions[:, :-1], joined)
        visible = same_document(batch.segment[:, :-1])
        hidden: Tensor = self.net.layers[0](joined, rotation, mask=visible)
        return hidden


class TandemTrainee(Trainee):
    """Tandem: cross-entropy alone, in blocks like MoA's. Of the text before a block, layers read
    the target's states; within it, their own."""

    net: TandemNet

    def forward(self, batch: Batch, lesson: Lesson, masks: Masks, seed: int) -> Loss:
        hidden = self.net.norm(self._hidden(batch, lesson, masks))
        entropy = soft_entropy(hidden, lesson.verdicts, masks.loss)
        return entropy, {"cross_entropy": entropy.detach()}

    def missing(self, batch: Batch, lesson: Lesson, masks: Masks) -> tuple[Tensor, Tensor]:
        wanted = lesson.hidden / self.net.norm.weight
        return wanted - self._hidden(batch, lesson, masks), masks.loss

    def _hidden(self, batch: Batch, lesson: Lesson, masks: Masks) -> Tensor:
        self._drafter.rope.reserve(batch.ids.shape[1])
        rotation = self._drafter.rope(batch.positions, lesson.embedded)
        known = _TrueFirst(self.net.memorise(lesson.hidden, rotation))
        hidden: Tensor = self.net(lesson.embedded, rotation, masks.tail, known)
        return hidden


class MedusaTrainee(Trainee):
    """Each head learns the target's distribution at its own place ahead.

    fitted  the head that `missing` is about
    """

    fitted = 0

    def forward(self, batch: Batch, lesson: Lesson, masks: Masks, seed: int) -> Loss:
        ahead = self.net(lesson.hidden).unbind(2)  # of [B, T, K, E]
        every = torch.arange(batch.ids.shape[1], device=batch.ids.device).expand_as(batch.ids)
        loss, entropies = entropy_ahead(zip(ahead, repeat(every)), batch, lesson)
        return loss, {"cross_entropy": entropies[0]}

    def missing(self, batch: Batch, lesson: Lesson, masks: Masks) -> tuple[Tensor, Tensor]:
        shift, segment = self.fitted + 1, batch.segment
        where = predictable(batch)[:, shift:] & (segment[:, shift:] == segment[:, :-shift])
        wanted = lesson.hidden.roll(-shift, 1)  # beyond the end of a row there is no loss
        return wanted - self.net(lesson.hidden)[:, :, self.fitted], F.pad(where, (0, shift))


def entropy_ahead(
    drafts: Iterable[tuple[Tensor, Tensor]], batch: Batch, lesson: Lesson
) -> tuple[Tensor, list[Tensor]]:
    """Weighted mean of the losses of several drafts in a row, and the single losses.

    drafts  states [B, n, E] and their rows [B, n]: row t of draft k predicts token t + 2 + k

    A later draft has fewer such rows, and its loss is a mean over them. Parts of a batch are
    weighted by the first draft's rows, so the number of parts changes the loss a little.
    """
    reply, segment = predictable(batch), batch.segment
    total, weights, entropies = torch.zeros((), device=reply.device), 0.0, []
    for k, (states, places) in enumerate(drafts):
        shift = k + 1  # the target's distribution of token t + 2 + k is in row t + 1 + k
        where = reply[:, shift:] & (segment[:, shift:] == segment[:, :-shift])
        rows, columns = F.pad(where, (0, shift)).gather(1, places).nonzero(as_tuple=True)
        judged = rows, places[rows, columns] + shift
        entropy = entropy_at(states[rows, columns], lesson.verdicts, judged)
        weight = DECAY**k
        total, weights = total + weight * entropy, weights + weight
        entropies.append(entropy.detach())
    return total / weights, entropies


def noise(like: Tensor, seed: int, rows: list[int]) -> Tensor:
    """Uniform numbers from 0 to 1, shaped like [B, ...]. Each row has its own, by seed."""
    generators = [torch.Generator(like.device).manual_seed(seed * 1_000_003 + row) for row in rows]
    draws = [torch.rand(like.shape[1:], generator=each, device=like.device) for each in generators]
    return torch.stack(draws)


# Logits that exist at a time: 134 MB, and a few times that with probabilities. A whole row of 2,048
# tokens with a vocabulary of 128,256 takes 3.8 GB.
CHUNK = 2**25


def soft_entropy(hidden: Tensor, verdicts: Verdicts, where: Tensor, ahead: int = 0) -> Tensor:
    """Mean of -sum p log q over the positions `where` [B, T]. The frozen head runs for them alone.

    hidden [B, T, E]
    ahead  how many positions after these the target's verdicts are
    """
    rows, columns = where.nonzero(as_tuple=True)
    return entropy_at(hidden[rows, columns], verdicts, (rows, columns + ahead))


def entropy_at(drafted: Tensor, verdicts: Verdicts, places: tuple[Tensor, Tensor]) -> Tensor:
    """Mean of -sum p log q for drafted states [n, E]; p is the target's verdict at n places."""
    total: Tensor = _Entropy.apply(drafted, verdicts, *places)  # type: ignore[no-untyped-call]
    return total / (len(drafted) + 1e-5)


class _Entropy(torch.autograd.Function):
    """The sum of -sum p log q. Its gradient is computed beside it, so that logits are never kept:
    CHUNK of them exist at a time."""

    @staticmethod
    def forward(
        ctx: Any, drafted: Tensor, verdicts: Verdicts, rows: Tensor, columns: Tensor
    ) -> Tensor:
        total = torch.zeros((), device=drafted.device)
        gradients: list[Tensor] = []
        most = max(1, CHUNK // verdicts.head.out_features)
        for part in torch.arange(len(drafted), device=drafted.device).split(most):
            with torch.enable_grad():
                states = drafted[part].detach().requires_grad_()
                logits = verdicts.head(states)
            probs = verdicts.probs(rows[part], columns[part])
            found = logits.detach().float().log_softmax(-1)
            total -= torch.dot(probs.flatten(), found.flatten())
            slope = found.exp_().sub_(probs).to(logits.dtype)
            gradients += torch.autograd.grad(logits, states, slope)
        ctx.save_for_backward(torch.cat(gradients) if gradients else drafted)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return gradients[0] * slope, None, None, None


def _smooth(found: Tensor, wanted: Tensor, where: Tensor) -> Tensor:
    """Mean SmoothL1 over features, then over the positions `where`."""
    loss = F.smooth_l1_loss(found.float(), wanted.float(), reduction="none").mean(-1)
    return (loss * where).sum() / (where.sum() + 1e-5)
