"""A drafter's levels in static shapes: the root with what is new, then level after level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.model.cache import KVCache, token_vectors
from moa_core.model.layers import Rotation
from moa_core.model.target import Observation, Target
from moa_core.static.buffers import Growth, Slots, Text, below, with_drafts

WIDEST = 64  # nodes of a level: what tree settings allow


class Levels(ABC):
    """What a method does at each level, in tensors that keep their place."""

    @abstractmethod
    def prefill(self, observation: Observation) -> None:
        """Take in the prompt, but for its last token: that one counts as new in the first cycle."""

    @abstractmethod
    def root(self, reach: int) -> Tensor:
        """Take in the newly verified tokens; logits [1, V] after the root."""

    @abstractmethod
    def expand(self, growth: Growth, level: int, reach: int) -> Tensor:
        """Logits [b, V] after the newest nodes, of this level."""


class EagleLevels(Levels):
    """EAGLE-2: row i of its cache is of feature i and token i + 1."""

    def __init__(self, drafter: EagleDrafter, target: Target, text: Text, capacity: int) -> None:
        self._net, self._rope, self._target, self._text = drafter.net, drafter.rope, target, text
        drafter.rope.reserve(capacity)
        sizes = drafter.net.config
        self._slots = _slots(target, sizes.kv_heads, sizes.head_dim, capacity)
        self._feature = text.hidden.new_zeros(1, text.hidden.shape[1])
        # [b, E] drafted features of the newest level, of any breadth
        self._levels = text.hidden.new_zeros(WIDEST, text.hidden.shape[1])

    def prefill(self, observation: Observation) -> None:
        count, cache = len(observation.ids) - 1, self._slots.cache
        cache.truncate(0)
        if count:
            tokens = torch.tensor(observation.ids[1:], device=self._target.device)
            hidden = self._net.join(
                self._target.embed(tokens)[None], observation.hidden[None, :count]
            )
            rotation = self._rope.span(0, count, hidden)
            self._net.layers[0](hidden, rotation, causal=count > 1, cache=cache)

    def root(self, reach: int) -> Tensor:
        text, places = self._text, self._text.new
        mask = below(places + 1, text.rows, reach)
        hidden = self._step(text.newest, text.hidden, places, places, mask, reach)
        self._feature.copy_(hidden.index_select(0, (text.gained - 1).reshape(1)))
        return self._target.head(self._feature)

    def expand(self, growth: Growth, level: int, reach: int) -> Tensor:
        known, b = self._text.known, growth.breadth
        features = self._levels[:b]
        parents = self._feature.expand(b, -1) if level == 1 else features[growth.above]
        places = (known + level - 1).expand(b)
        slots = known + (level - 1) * b + torch.arange(b, device=known.device)
        mask = with_drafts(known, growth.seen[:, : level * b], reach)
        features.copy_(self._step(growth.tokens, parents, places, slots, mask, reach))
        return self._target.head(features)

    def _step(
        self,
        tokens: Tensor,
        features: Tensor,
        places: Tensor,
        slots: Tensor,
        mask: Tensor,
        reach: int,
    ) -> Tensor:
        """[n, E] drafted features."""
        hidden = self._net.join(self._target.embed(tokens)[None], features[None])
        cache = self._slots.at(slots, reach)
        rotation = self._rope(places[None], hidden)
        found: Tensor = self._net.layers[0](hidden, rotation, mask=mask, cache=cache)
        return found[0]


class MoALevels(Levels):
    """MoA. TLI reads the target's own K and V, and writes its drafts where the target will write:
    each verification puts the true ones there."""

    def __init__(self, drafter: MoADrafter, target: Target, text: Text, capacity: int) -> None:
        self._drafter, self._net, self._target, self._text = drafter, drafter.net, target, text
        drafter.sa_rope.reserve(capacity)
        drafter.ca_rope.reserve(capacity)
        sa, ca = drafter.net.config.sa, drafter.net.config.ca
        self._spoken = _slots(target, sa.kv_heads, sa.head_dim, capacity) if sa else None
        self._memory = _slots(target, ca.kv_heads, ca.head_dim, capacity)

    def prefill(self, observation: Observation) -> None:
        count = len(observation.ids) - 1
        if not count:
            return
        half = self._drafter.server_half(observation.part(0, count))
        self._memory.cache.truncate(0)
        self._memory.cache.append(half["memory"])
        if self._spoken is not None:
            self._spoken.cache.truncate(0)
            tokens = torch.tensor(observation.ids, device=self._target.device)
            hidden = self._target.embed(tokens)[None]
            rotation = self._drafter.sa_rope.span(0, len(tokens), hidden)
            self._net.self_attention(hidden, rotation, causal=True, cache=self._spoken.cache)

    def root(self, reach: int) -> Tensor:
        text = self._text
        self._observe(text.new)
        places = text.new + 1
        hidden = self._speak(
            text.newest, places, places, below(places + 1, text.rows, reach), reach
        )
        last = hidden.index_select(1, (text.gained - 1).reshape(1))
        place = text.known.reshape(1)
        return self._finish(last, place, place, below(text.known + 1, 1, reach), reach)

    def expand(self, growth: Growth, level: int, reach: int) -> Tensor:
        known, b = self._text.known, growth.breadth
        places = (known + level).expand(b)
        slots = known + 1 + (level - 1) * b + torch.arange(b, device=known.device)
        mask = with_drafts(known + 1, growth.seen[:, : level * b], reach)
        hidden = self._speak(growth.tokens, places, slots, mask, reach)
        return self._finish(hidden, places, slots, mask, reach)

    def _observe(self, new: Tensor) -> None:
        """LSA over the K and V of new tokens [R], and what CA keeps of it."""
        vectors = token_vectors(self._text.slots.rows(new))  # [R, L, W]
        memory = self._net.memory(vectors, self._drafter.layer_rope)[None]
        found = self._net.cross_attention.memorise(memory, self._turned(new))
        for part, each in zip(self._memory.whole[0], found, strict=True):
            part.index_copy_(1, new, each[0])

    def _turned(self, places: Tensor) -> Rotation:
        return self._drafter.ca_rope(places[None], self._memory.whole)

    def _speak(
        self, tokens: Tensor, places: Tensor, slots: Tensor, mask: Tensor, reach: int
    ) -> Tensor:
        """SA: [1, n, E]."""
        hidden = self._target.embed(tokens)[None]
        if self._spoken is None:
            return hidden
        cache = self._spoken.at(slots, reach)
        rotation = self._drafter.sa_rope(places[None], hidden)
        found: Tensor = self._net.self_attention(hidden, rotation, mask=mask, cache=cache)
        return found

    def _finish(
        self, hidden: Tensor, places: Tensor, slots: Tensor, mask: Tensor, reach: int
    ) -> Tensor:
        """CA, the target's last N layers, its head: [n, V]."""
        keys, values = self._memory.whole[0, :, None, :, :reach]
        verified = below(self._text.known, hidden.shape[1], reach)
        hidden = self._net.cross_attention.attend(
            hidden, self._turned(places), keys, values, verified
        )
        if tli := self._drafter.tli:
            cache = self._text.slots.at(slots, reach)
            hidden = self._target.read_layers(hidden, places[None], mask, cache, tli)
        return self._target.head(hidden)[0]


def _slots(target: Target, kv_heads: int, head_dim: int, capacity: int) -> Slots:
    return Slots(KVCache([target.device], kv_heads, head_dim, capacity, target.dtype))


METHODS: dict[type[Drafter], Callable[..., Levels] | None] = {
    Vanilla: None,
    MoADrafter: MoALevels,
    EagleDrafter: EagleLevels,
}
