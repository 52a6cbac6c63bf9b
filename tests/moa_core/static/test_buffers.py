"""Buckets, masks from positions in tensors, K and V written by index; attention in groups."""

import pytest
import torch
import torch.nn.functional as F

from moa_core.model.cache import KVCache
from moa_core.model.layers import grouped_attention, tree_mask
from moa_core.static.buffers import STEP, Slots, below, bucket, with_drafts

CPU = torch.device("cpu")


def test_buckets_are_few_and_not_much_too_long() -> None:
    found = [bucket(length) for length in range(1, 40 * STEP)]
    assert sorted(found) == found
    assert {size // STEP for size in found} == {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}
    for length, size in enumerate(found, start=1):
        assert length <= size and (size < length + STEP or size <= 1.5 * length)
    assert all(bucket(size) == size for size in set(found))


def test_masks_are_those_of_the_eager_way() -> None:
    seen = torch.rand(3, 6) > 0.5
    mask = with_drafts(torch.tensor(5), seen, 16)
    assert torch.equal(mask[..., :11], tree_mask(seen, 5)) and not mask[..., 11:].any()
    rows = below(torch.tensor([2, 3]), 2, 4)[0, 0].tolist()
    assert rows == [[True, True, False, False], [True, True, True, False]]
    assert below(torch.tensor(1), 2, 2).tolist() == [[[[True, False], [True, False]]]]


def test_a_window_writes_at_its_slots() -> None:
    cache = KVCache([CPU] * 2, 2, 4, 12, torch.float32)
    slots = Slots(cache)
    keys, values = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4)
    found = slots.at(torch.tensor([7, 2, 5]), 8).update(keys, values, 1)
    assert found[0].shape == (1, 2, 8, 4)
    whole = cache.read(0, 12)
    assert torch.equal(whole[1, 0][:, [7, 2, 5]], keys[0])
    assert torch.equal(found[1][0][:, [7, 2, 5]], values[0])
    assert not whole[0].any() and whole[1].count_nonzero() == 2 * 3 * 8
    slots.move(torch.tensor([5, 7]), torch.tensor([0, 1]))
    assert torch.equal(whole[1, 1][:, [0, 1]], values[0][:, [2, 0]])
    assert torch.equal(slots.rows(torch.tensor([2]))[1, 0], keys[0][:, 1:2])


@pytest.mark.parametrize("heads", [(4, 2), (5, 1), (6, 3)])
def test_grouped_attention_is_attention(heads: tuple[int, int]) -> None:
    queries = torch.randn(1, heads[0], 5, 8)
    keys, values = torch.randn(2, 1, heads[1], 9, 8)
    mask = torch.rand(1, 1, 5, 9) > 0.4
    mask[..., 0] = True
    expected = F.scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=True)
    assert torch.allclose(grouped_attention(queries, keys, values, mask), expected, atol=1e-5)
