"""Causal attention as matrix products. On a CPU it is faster than SDPA, above all backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "moa_core_blocks"
# Blocks of queries. Each sees the keys up to its end, which saves three eighths of the scores.
BLOCKS = 4


def blocks(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: None, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Causal grouped-query attention over whole rows.

    q     [B, H, T, D]; k and v [B, KV, T, D]. Returns [B, T, H, D]
    mask  unused: attention is causal over the whole row
    """
    kv, length = k.shape[1], q.shape[2]
    q = (q * scaling).unflatten(1, (kv, -1))  # [B, KV, G, T, D]
    step = -(-length // BLOCKS)
    future = torch.full((length, length), -torch.inf, dtype=q.dtype, device=q.device).triu(1)
    found = []
    for start in range(0, length, step):
        end = min(start + step, length)
        rows = q[:, :, :, start:end]  # [B, KV, G, C, D]
        scores = rows.flatten(2, 3) @ k[:, :, :end].transpose(-1, -2)  # [B, KV, G C, end]
        scores = scores.unflatten(2, rows.shape[2:4]) + future[start:end, :end]
        weights = scores.softmax(-1).flatten(2, 3)
        found.append((weights @ v[:, :, :end]).unflatten(2, rows.shape[2:4]))
    return torch.cat(found, 3).flatten(1, 2).transpose(1, 2), None


AttentionInterface.register(NAME, blocks)
