"""A frozen target's outputs on a batch, from which drafters learn."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache

from moa_core.model.cache import token_vectors
from moa_core.model.target import Matrix, Target
from moa_core.train.batches import Batch, same_document
from moa_core.train.masks import predictable

Layers = Iterator[tuple[Tensor, Tensor, Tensor]]  # of each layer: output [B, T, E], K and V
# Probabilities that are kept for all methods of a batch: 537 MB. With Llama 3's vocabulary, those
# of 2,048 tokens would take a gigabyte: they are computed when they are asked for.
KEPT = 2**27


class Verdicts:
    """A target's next-token distributions over the words of a head.

    hidden  [B, T, E] its last hidden states
    where   [B, T] bool: positions that several methods will ask for; None: none
    """

    def __init__(self, hidden: Tensor, head: Matrix, where: Tensor | None = None) -> None:
        self.head, self._hidden = head, hidden
        self._known: tuple[Tensor, Tensor] | None = None
        if where is not None and int(where.sum()) * head.out_features <= KEPT:
            rows = torch.where(where.flatten(), where.flatten().cumsum(0) - 1, -1)
            self._known = rows.view(where.shape), self._computed(*where.nonzero(as_tuple=True))

    @torch.no_grad()
    def probs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """[n, D] float32 at these positions: row and column [n]. They sum to 1 over the words."""
        if self._known is not None:
            places, probs = self._known[0][rows, columns], self._known[1]
            if bool((places >= 0).all()):
                return probs[places]
        return self._computed(rows, columns)

    @torch.no_grad()
    def _computed(self, rows: Tensor, columns: Tensor) -> Tensor:
        return self.head(self._hidden[rows, columns]).float().softmax(-1)


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


def within_documents(batch: Batch) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Causal attention of Q [B, H, T, d] to K and V [B, G, T, d] within each document.

    On a CPU, document by document: with a mask, packed rows would be several times slower.
    """
    if batch.ids.device.type != "cpu":
        mask = same_document(batch.segment)
        return partial(F.scaled_dot_product_attention, attn_mask=mask, enable_gqa=True)
    spans = []
    for row, segments in enumerate(batch.segment.tolist()):
        lengths = [len(list(same)) for _, same in groupby(segments)]
        ends = accumulate(lengths)
        spans += [(row, end - length, end) for length, end in zip(lengths, ends, strict=True)]

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mixed = torch.empty_like(queries)
        for row, start, stop in spans:
            part = slice(row, row + 1), slice(None), slice(start, stop)
            mixed[part] = F.scaled_dot_product_attention(
                queries[part], keys[part], values[part], is_causal=True, enable_gqa=True
            )
        return mixed

    return attend


def _by_transformers(target: Target, hidden: Tensor, batch: Batch) -> Layers:
    mask, cache = same_document(batch.segment), DynamicCache()
    rope = target.decoder.rotary_emb(hidden, position_ids=batch.positions)
    for index, layer in enumerate(target.layers):
        hidden = layer(
            hidden, attention_mask=mask, position_ids=batch.positions, past_key_values=cache,
            use_cache=True, position_embeddings=rope,
        )  # fmt: skip
        kept: Any = cache.layers[index]
        yield hidden, kept.keys, kept.values


def _in_our_form(target: Target, hidden: Tensor, batch: Batch) -> Layers:
    """On a CPU, this takes half the time of transformers' layers."""
    assert target.own is not None
    rope, layers = target.own
    rope.reserve(batch.ids.shape[1])
    rotation = rope(batch.positions, hidden)
    attend = within_documents(batch)
    for layer in layers:
        x, heads = layer.input_layernorm(hidden), layer.self_attn
        keys, values = heads.keys_values(x, rotation)
        mixed = attend(heads.queries(x, rotation), keys, values)
        hidden = layer.feed(hidden + heads.o_proj(mixed.transpose(1, 2).flatten(2)))
        yield hidden, keys, values


@torch.no_grad()
def teach(
    target: Target, batch: Batch, tails: Collection[int] = (), words: Tensor | None = None
) -> Lesson:
    """Run the target once over a batch; no document sees another.

    tails  the N of every drafter that reuses the last N layers
    words  [D] ids of the draft vocabulary; None: all tokens
    """
    embedded = target.embed(batch.ids)
    run = _by_transformers if target.own is None else _in_our_form
    entering, tail, state = {}, [], embedded
    for index, (after, keys, values) in enumerate(run(target, embedded, batch)):
        if (left := len(target.layers) - index) in tails:
            entering[left] = state
        tail.append((keys, values))
        state = after
    hidden = target.decoder.norm(state)
    columns = [torch.stack(pair).transpose(1, 2).flatten(2, 3) for pair in tail]  # [2, G, B * T, d]
    vectors: Tensor = token_vectors(torch.stack(columns)).unflatten(0, batch.ids.shape)
    verdicts = Verdicts(hidden, target.head_of(words), predictable(batch))
    return Lesson(embedded, hidden, entering, vectors, tail, verdicts)
