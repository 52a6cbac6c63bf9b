"""K and V in vLLM's paged cache, read and written by slot.

Attention kernels order the numbers of a block as they like: by instruction set on a CPU, tokens or
heads first on a GPU. The order is learned: known numbers are written through the kernel into a
block of our own and looked up there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from moa_core.errors import UserError

BASE = 128  # digits below it are exact in every float format of a cache
DIGITS = 4


class Pages:
    """The cache of one of vLLM's attention layers.

    layer  with a bound `kv_cache`, logically [blocks, G, block, 2 d]
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    @property
    def block(self) -> int:
        """Tokens per block."""
        return int(self.layer.kv_cache.shape[2])

    def read(self, slots: Tensor) -> Tensor:
        """K (after RoPE) and V [.., G, 2, d] of the tokens in slots [..]."""
        found = self._numbers()[self.places(slots)]
        return found.unflatten(-1, (self.layer.num_kv_heads, 2, self.layer.head_size))

    def write(self, keys: Tensor, values: Tensor, slots: Tensor) -> None:
        """K and V [n, G, d] of the tokens in slots [n]."""
        layer = self.layer
        keys, values = keys.contiguous(), values.contiguous()
        layer.impl.do_kv_cache_update(layer, keys, values, layer.kv_cache, slots)

    def places(self, slots: Tensor) -> Tensor:
        """Where the numbers of tokens lie, heads outermost: slots [..] -> [.., G * 2 * d]."""
        blocks = slots // self.block * self.layer.kv_cache.stride(0)
        return blocks[..., None] + self._order[slots % self.block]

    def _numbers(self) -> Tensor:
        """The whole cache as one row, without a copy."""
        cache = self.layer.kv_cache
        count = (len(cache) - 1) * cache.stride(0) + _span(cache)
        return cache.as_strided((count,), (1,))

    @cached_property
    def _order(self) -> Tensor:
        """Places in a block, [block, G * 2 * d]."""
        return _learned(self.layer)


def token_vectors(layers: Sequence[Pages], slots: Tensor) -> Tensor:
    """LSA's input for the tokens in slots [n]: K and V of all layers, heads outermost,
    [n, L, 2 * G * d]."""
    places = layers[0].places(slots)  # all layers have one form
    return torch.stack([layer._numbers()[places] for layer in layers], 1)


def _span(cache: Tensor) -> int:
    """Numbers from the first to the last of a block. UserError if other blocks lie between."""
    sizes = zip(cache.shape[1:], cache.stride()[1:], strict=True)
    span = 1 + sum((size - 1) * stride for size, stride in sizes)
    if span > cache.stride(0):
        raise UserError("This attention backend keeps K and V in no order that moa_vllm knows.")
    return int(span)


def _learned(layer: Any) -> Tensor:
    """Where a block keeps each number, [block, G * 2 * d]."""
    cache, heads, size = layer.kv_cache, layer.num_kv_heads, layer.head_size
    block, device = cache.shape[2], cache.device
    count = 2 * block * heads * size
    names = torch.arange(1, count + 1, device=device).view(2, block, heads, size)
    slots = torch.arange(block, device=device)
    found = torch.zeros(_span(cache), dtype=torch.long, device=device)
    for digit in range(DIGITS):
        keys, values = (names // BASE**digit % BASE).to(cache.dtype)
        own = torch.zeros(cache.stride(0), dtype=cache.dtype, device=device)
        scratch = own.as_strided((1, *cache.shape[1:]), cache.stride())
        layer.impl.do_kv_cache_update(layer, keys, values, scratch, slots)
        found += own[: len(found)].long() * BASE**digit
    places = found.argsort()[-count:]  # unused places hold 0
    if not torch.equal(found[places], names.flatten()):
        raise UserError("This attention backend does not keep K and V as they are.")
    return places.view(names.shape).permute(1, 2, 0, 3).flatten(1)
