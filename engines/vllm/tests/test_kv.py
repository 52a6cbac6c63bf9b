"""Layouts of a block, those of GPUs among them, by kernels that only move numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from moa_vllm.kv import Pages, token_vectors
from torch import Tensor

from moa_core.errors import UserError

BLOCKS, HEADS, BLOCK, SIZE = 6, 3, 8, 4
SHAPE = (BLOCKS, HEADS, BLOCK, 2 * SIZE)
Put = Callable[[Tensor, Tensor, Tensor, int, int], None]


def halves(cache: Tensor, keys: Tensor, values: Tensor, block: int, place: int) -> None:
    """K and V are halves of the last axis, as in FlashAttention."""
    cache[block, :, place, :SIZE], cache[block, :, place, SIZE:] = keys, values


def packed(cache: Tensor, keys: Tensor, values: Tensor, block: int, place: int) -> None:
    """All K of a block, then all V, a block's tokens innermost, as kernels for CPUs do."""
    whole = cache[block].view(HEADS, 2, SIZE, BLOCK)
    whole[:, 0, :, place], whole[:, 1, :, place] = keys, values


def rounded(cache: Tensor, keys: Tensor, values: Tensor, block: int, place: int) -> None:
    halves(cache, keys // 2, values, block, place)


def layer(put: Put, cache: Tensor) -> Any:
    def update(_: Any, keys: Tensor, values: Tensor, into: Tensor, slots: Tensor) -> None:
        for key, value, slot in zip(keys, values, slots.tolist(), strict=True):
            put(into, key, value, slot // BLOCK, slot % BLOCK)

    impl = SimpleNamespace(do_kv_cache_update=update)
    return SimpleNamespace(impl=impl, kv_cache=cache, num_kv_heads=HEADS, head_size=SIZE)


def caches() -> dict[str, tuple[Put, Tensor]]:
    tokens_first = torch.zeros(BLOCKS, BLOCK, HEADS, 2 * SIZE).transpose(1, 2)
    with_others = torch.zeros(BLOCKS, 5, *SHAPE[1:])[:, 2]  # several layers in each page
    return {
        "heads first": (halves, torch.zeros(SHAPE)),
        "tokens first": (halves, tokens_first),
        "pages of many layers": (halves, with_others),
        "packed, bfloat16": (packed, torch.zeros(SHAPE, dtype=torch.bfloat16)),
    }


@pytest.mark.parametrize("name", caches())
def test_what_is_written_is_read(name: str) -> None:
    put, cache = caches()[name]
    pages, slots = Pages(layer(put, cache)), torch.randperm(BLOCKS * BLOCK)[:20]
    keys, values = torch.randn(2, 20, HEADS, SIZE).to(cache.dtype)
    pages.write(keys, values, slots)
    found = pages.read(slots.view(4, 5)).flatten(0, 1)
    assert torch.equal(found[:, :, 0], keys) and torch.equal(found[:, :, 1], values)


def test_the_vectors_of_a_token_have_its_heads_outermost() -> None:
    layers = [Pages(layer(halves, torch.randn(SHAPE))) for _ in range(2)]
    (found,) = token_vectors(layers, torch.tensor([2 * BLOCK + 3]))
    assert torch.equal(
        found, torch.stack([one.layer.kv_cache[2, :, 3].flatten() for one in layers])
    )


@pytest.mark.parametrize(
    ("put", "cache", "said"),
    [
        (rounded, torch.zeros(SHAPE), "as they are"),
        (halves, torch.zeros(HEADS, BLOCKS, *SHAPE[2:]).transpose(0, 1), "in no order"),
    ],
    ids=["fewer bits", "blocks inside"],
)
def test_other_layouts_are_refused(put: Put, cache: Tensor, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Pages(layer(put, cache)).read(torch.tensor([0]))
