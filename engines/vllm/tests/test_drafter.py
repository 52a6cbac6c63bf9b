"""Drafts over pages are `moa_core`'s, for nets of other shapes than the default one's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import CHAIN, COUNT
from moa_vllm.drafter import PagedDrafter
from moa_vllm.kv import Pages
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.model.target import Target

BLOCK, LENGTHS = 8, (9, 30, 17)


def target() -> Target:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return Target(LlamaForCausalLM(config).requires_grad_(False))


def pages(heads: int, size: int) -> Pages:
    def update(_: Any, keys: Tensor, values: Tensor, into: Tensor, slots: Tensor) -> None:
        for key, value, slot in zip(keys, values, slots.tolist(), strict=True):
            into[slot // BLOCK, :, slot % BLOCK] = torch.cat([key, value], -1)

    cache = torch.full((16, heads, BLOCK, 2 * size), torch.nan)  # as a GPU may leave it
    impl = SimpleNamespace(do_kv_cache_update=update)
    return Pages(SimpleNamespace(impl=impl, kv_cache=cache, num_kv_heads=heads, head_size=size))


CONFIGS = {
    "as published": MoAConfig(
        32, 32, Sizes(4, 1, 8, 40), Sizes(4, 2, 8, 24), Sizes(4, 2, 8, 16), 1e-5
    ),
    "last row": MoAConfig(
        32, 32, Sizes(2, 2, 16, 40), Sizes(4, 4, 8, 24), Sizes(2, 1, 16, 16), 1e-5, pool="last"
    ),
    "without LSA, with biases": MoAConfig(
        32, 32, Sizes(4, 4, 8, 40), Sizes(4, 1, 8, 24), None, 1e-5,
        qkv_bias=True, o_bias=True, mlp_bias=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("few", [False, True], ids=["all words", "some words"])
@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_chains_of_several_texts(name: str, few: bool) -> None:
    whole, config = target(), CONFIGS[name]
    drafter = MoADrafter(MoANet(config).requires_grad_(False), whole)
    drafter.vocabulary = torch.arange(0, 90, 2) if few else None
    texts = [torch.randint(0, 90, (length + 1,)).tolist() for length in LENGTHS]
    blocks = torch.randperm(15).view(3, 5) + 1  # of each text; block 0 is nobody's
    layers = [pages(2, 8) for _ in whole.layers]
    own = [pages(one.kv_heads, one.head_dim) for one in (config.sa, config.ca)]
    paged = PagedDrafter(drafter, whole, layers, *own)
    paged.reserve(64)

    wanted, ids, positions, slots = [], [], [], []
    for text, mine in zip(texts, blocks, strict=True):
        run, one = whole.fork(), drafter.fork()
        one.open(run, 64)
        _, observed = run.prefill(text[:-1], 64)
        one.observe(observed.ids, one.server_outputs(observed))
        wanted.append(list(one.propose(text[-1], CHAIN).tokens[1:]))
        at = torch.arange(len(text) - 1)
        here = mine[at // BLOCK] * BLOCK + at % BLOCK
        for keys_values, layer in zip(observed.keys_values(), layers, strict=True):
            keys, values = keys_values.transpose(1, 2)  # [n, G, d]
            layer.write(keys, values, here)
        ids.append(torch.tensor(text[:-1]))
        positions.append(at)
        slots.append(here)
    paged.observe(torch.cat(ids), torch.cat(positions), torch.cat(slots))
    lengths = torch.tensor(LENGTHS)
    places = torch.arange(max(LENGTHS)).minimum(lengths[:, None] - 1)
    all_slots = blocks.gather(1, places // BLOCK) * BLOCK + places % BLOCK
    roots = [text[-1] for text in texts]
    assert paged.draft(roots, all_slots, lengths, COUNT).tolist() == wanted
    alone = paged.draft(roots[1:2], all_slots[1:2], lengths[1:2], COUNT)
    assert alone.tolist() == wanted[1:2]
