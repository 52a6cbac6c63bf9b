"""MoA with N = 0 over paged memory: `moa_core`'s layers, many texts at a time, chains of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from moa_core.drafters.moa import LSA_CHUNK, MoADrafter
from moa_core.model.target import Target
from moa_vllm.kv import Pages, token_vectors


class Window:
    """SA's K and V of a batch: those of verified tokens, then those of drafts, which end with it.

    It stands in for `moa_core`'s cache of one text.
    """

    def __init__(self, keys: Tensor, values: Tensor, room: int) -> None:
        """keys, values: [B, G, T, d] of verified tokens. room: for so many more."""
        self._length = keys.shape[2]
        self._keys, self._values = (F.pad(one, (0, 0, 0, room)) for one in (keys, values))

    def update(self, keys: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        """Add K and V [B, G, 1, d]; return all, [B, G, T + drafts, d]."""
        for all_of, new in ((self._keys, keys), (self._values, values)):
            all_of[:, :, self._length] = new[:, :, 0]
        self._length += 1
        return self._keys[:, :, : self._length], self._values[:, :, : self._length]


class PagedDrafter:
    """Drafts for many texts.

    layers  the target's caches
    text    SA's K and V of verified tokens, in the same slots
    memory  CA's
    """

    def __init__(
        self, drafter: MoADrafter, target: Target, layers: Sequence[Pages], text: Any, memory: Any
    ) -> None:
        self._moa, self._net, self._target = drafter, drafter.net, target
        self._layers, self._text, self._memory = layers, text, memory
        self._head, self._words = drafter.head_for(target), drafter.vocabulary

    def reserve(self, positions: int) -> None:
        """The longest text, drafts included."""
        self._moa.sa_rope.reserve(positions)
        self._moa.ca_rope.reserve(positions)

    def observe(self, tokens: Tensor, positions: Tensor, slots: Tensor) -> None:
        """Remember verified tokens [n] of any texts: K and V of SA, and of CA by LSA (section 3.1).

        Both depend on the token alone, its K and V and its position, so that order does not matter,
        and blocks of a shared prefix serve all texts that share them.
        """
        net = self._net
        for part in zip(*(one.split(LSA_CHUNK) for one in (tokens, positions, slots)), strict=True):
            words, at, here = part
            vectors = token_vectors(self._layers, here)  # [n, L, W]
            memory = net.memory(vectors, self._moa.layer_rope)  # [n, E]
            for pages, layer, rope, x in (
                (self._text, net.self_attention, self._moa.sa_rope, self._target.embed(words)),
                (self._memory, net.cross_attention, self._moa.ca_rope, memory),
            ):
                keys, values = layer.memorise(x[None], rope(at[None], x))  # [1, G, n, d]
                pages.write(keys[0].transpose(0, 1), values[0].transpose(0, 1), here)

    def draft(self, roots: Sequence[int], slots: Tensor, lengths: Tensor, count: int) -> Tensor:
        """The most probable chain below each text's newest token, [B, count] token ids.

        roots    the newest tokens, which the target has chosen but not read
        slots    [B, T] of verified tokens; a shorter text repeats its last one
        lengths  [B] numbers of verified tokens
        """
        net, longest = self._net, slots.shape[1]
        known = None  # [B, 1, 1, T]
        if len(roots) > 1:
            places = torch.arange(longest, device=slots.device)
            known = (places < lengths[:, None])[:, None, None]
        text = Window(*_heads_first(self._text.read(slots)), count)
        memory = _heads_first(self._memory.read(slots))
        tokens, found = torch.tensor(roots, device=slots.device), []
        for step in range(count):
            at = lengths[:, None] + step
            hidden = self._target.embed(tokens)[:, None]  # [B, 1, E]
            seen = None if known is None else F.pad(known, (0, step + 1), value=True)
            rotation = self._moa.sa_rope(at, hidden)
            hidden = net.self_attention(hidden, rotation, mask=seen, cache=text)
            rotation = self._moa.ca_rope(at, hidden)
            hidden = net.cross_attention.attend(hidden, rotation, *memory, known)
            best = self._head(hidden[:, 0]).argmax(-1)
            tokens = best if self._words is None else self._words[best]
            found.append(tokens)
        return torch.stack(found, 1)


def _heads_first(keys_values: Tensor) -> tuple[Tensor, Tensor]:
    """K and V [B, T, G, 2, d] -> two of [B, G, T, d]."""
    keys, values = keys_values.transpose(1, 2).unbind(-2)
    return keys, values
