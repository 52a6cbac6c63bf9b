"""A frozen target's outputs on a batch, from which drafters learn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from moa_core.model.cache import token_vectors
from moa_core.model.target import Matrix, Target
from moa_core.train.batches import Batch, same_document


@dataclass(frozen=True)
class Verdicts:
    """A target's next-token distributions, as hidden states [B, T, E] and the head.

    The whole [B, T, V] never exists: with Llama 3's vocabulary, 2,048 tokens take a gigabyte.
    """

    hidden: Tensor
    head: Matrix

    def after(self, count: int) -> Verdicts:
        """The distributions of all positions but the first `count`."""
        return Verdicts(self.hidden[:, count:], self.head)


@dataclass(frozen=True)
class Lesson:
    """A target's outputs on a batch.

    embedded  [B, T, E] its token embeddings
    hidden    [B, T, E] its last hidden state, after the final norm
    entering  {N: [B, T, E]} the hidden state that enters its last N layers
    vectors   [B, T, L, W] K and V of all layers, as LSA reads them
    tail      K and V of all layers, [B, G, T, d] each
    verdicts  its next-token distributions
    """

    embedded: Tensor
    hidden: Tensor
    entering: dict[int, Tensor]
    vectors: Tensor
    tail: list[tuple[Tensor, Tensor]]
    verdicts: Verdicts


def let_gradients_through(target: Target) -> None:
    """Call before a target's first use, because TLI is trained through its last layers.

    On some CPUs, bitsandbytes repacks a 4-bit layer at its first use into a form with a wrong
    gradient. A layer in training mode is not repacked.
    """
    for module in target.model.modules():
        if type(module).__name__ == "Linear4bit":
            module.train()


@torch.no_grad()
def teach(target: Target, batch: Batch, tails: Collection[int] = ()) -> Lesson:
    """Run the target once over a batch; no document sees another.

    tails  the N of every drafter that reuses the last N layers
    """
    mask = same_document(batch.segment)
    cache: Any = DynamicCache()
    embedded = target.embed(batch.ids)
    hidden = embedded
    rope = target.decoder.rotary_emb(hidden, position_ids=batch.positions)
    entering = {}
    for index, layer in enumerate(target.layers):
        if (left := len(target.layers) - index) in tails:
            entering[left] = hidden
        hidden = layer(
            hidden,
            attention_mask=mask,
            position_ids=batch.positions,
            past_key_values=cache,
            use_cache=True,
            position_embeddings=rope,
        )
    hidden = target.decoder.norm(hidden)
    tail = [(layer.keys, layer.values) for layer in cache.layers]
    columns = [torch.stack(pair).transpose(1, 2).flatten(2, 3) for pair in tail]  # [2, G, B * T, d]
    vectors: Tensor = token_vectors(torch.stack(columns)).unflatten(0, batch.ids.shape)
    verdicts = Verdicts(hidden, target.head)
    return Lesson(embedded, hidden, entering, vectors, tail, verdicts)
