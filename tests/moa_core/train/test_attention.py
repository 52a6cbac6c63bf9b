"""A target's attention in training is SDPA's, computed otherwise."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from moa_core.train.attention import BLOCKS, blocks


@pytest.mark.parametrize("length", [1, BLOCKS, 4 * BLOCKS + 1, 64])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_attention_in_training_and_its_gradients_are_sdpas(length, kv_heads):
    torch.manual_seed(length)
    q, k, v = (torch.randn(2, heads, length, 8) for heads in (4, kv_heads, kv_heads))
    weights = torch.randn(2, length, 4, 8)
    found = []
    for ours in (True, False):
        leaves = [one.clone().requires_grad_() for one in (q, k, v)]
        if ours:
            mixed, _ = blocks(torch.nn.Identity(), *leaves, None, 8**-0.5)
        else:
            mixed = scaled_dot_product_attention(*leaves, is_causal=True, enable_gqa=True)
            mixed = mixed.transpose(1, 2)
        (mixed * weights).sum().backward()
        found.append([mixed, *(leaf.grad for leaf in leaves)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
