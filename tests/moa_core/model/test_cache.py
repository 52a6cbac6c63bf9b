"""The cache counts, keeps and forgets exactly the slots it is told to."""

import pytest
import torch
from torch import Tensor

from moa_core.model.cache import KVCache, token_vectors

LAYERS, HEADS, SIZE, CAPACITY = 3, 2, 4, 12


@pytest.fixture
def cache() -> KVCache:
    return KVCache(torch.device("cpu"), HEADS, SIZE, CAPACITY, torch.float32, LAYERS, 5)


def some(count: int, seed: int = 0) -> Tensor:
    """K and V [layers, 2, G, n, d]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(LAYERS, 2, HEADS, count, SIZE, generator=generator)


def filled(cache: KVCache, count: int) -> Tensor:
    values = some(count, seed=9)
    for layer, (keys, found) in enumerate(values):
        cache.update(keys[None], found[None], 5 + layer)
    cache.advance(count)
    return values


def test_truncate_forgets_and_append_follows_on(cache):
    old = filled(cache, 5)
    cache.truncate(2)
    more = some(3)
    cache.append(more)
    assert cache.length == 5
    assert torch.equal(cache.read(0, 5), torch.cat([old[..., :2, :], more], -2))


def test_reading_takes_the_slots_and_the_last_layers_asked_for(cache):
    values = filled(cache, 6)
    assert torch.equal(cache.read(2, 5), values[..., 2:5, :])
    for last in range(1, LAYERS + 1):
        assert torch.equal(cache.read(1, 4, last), values[LAYERS - last :, ..., 1:4, :])


def test_token_vectors_put_heads_outermost_and_k_before_v():
    values = some(5)
    vectors = token_vectors(values)
    assert vectors.shape == (5, LAYERS, 2 * HEADS * SIZE)
    for token in range(5):
        for layer in range(LAYERS):
            pieces = [values[layer, kind, head, token] for head in range(HEADS) for kind in (0, 1)]
            assert torch.equal(vectors[token, layer], torch.cat(pieces))
