"""Tiny random models for tests: made from a seed in milliseconds, no files, no network."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from moa_core.target import Target


def tiny_target(seed: int = 0, scale: float = 6.0, **sizes: Any) -> Target:
    """A random Llama whose next-token choices are far from ties.

    scale  of the head's weights: larger means more peaked distributions
    """
    defaults = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": sizes.pop("layers", 3),
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "eos_token_id": None,
        "attn_implementation": "sdpa",
    }
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**defaults, **sizes}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.12)
            elif "norm" in name:
                weight.copy_(1 + 0.1 * torch.randn_like(weight))
        model.get_input_embeddings().weight.normal_(std=1.0)
        model.lm_head.weight.normal_(std=scale / sizes.get("hidden_size", 32) ** 0.5)
    return Target(model.eval().requires_grad_(False), name=f"tiny-{seed}")
