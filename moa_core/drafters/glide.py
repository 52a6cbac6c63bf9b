"""GLIDE (arXiv 2402.02082): a decoder layer that also attends to the K and V of the last layer.

MoA's nearest relative: it also drafts through cross-attention, but reads only the target's last
layer, and uses that layer's keys and values unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from moa_core.drafters.base import HalfShapes, Reader, ServerHalf
from moa_core.model.cache import KVCache
from moa_core.model.layers import Attention, RMSNorm, Rope, Rotation, SwiGLU, rotate, rows_mask
from moa_core.model.target import Observation, Target


@dataclass(frozen=True)
class GlideConfig:
    """Sizes of a GLIDE drafter. Head size and cross-attention heads are the target's."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    eps: float


class Lookup(nn.Module):
    """Cross-attention with its own queries and output, but the target's K and V."""

    def __init__(self, width: int, heads: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.q_proj = nn.Linear(width, heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)

    def forward(
        self, x: Tensor, rotation: Rotation, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Attention of x [B, n, width] to K (already rotated) and V [B, G, m, d].

        mask  [B, 1, n, m] bool
        """
        queries = self.q_proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [B, H, n, d]
        mixed = F.scaled_dot_product_attention(
            rotate(queries, rotation), keys, values, attn_mask=mask, enable_gqa=True
        )
        found: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return found


class GlideNet(nn.Module):
    """Self-attention, cross-attention, feed-forward; then a norm before the target's head."""

    def __init__(self, config: GlideConfig) -> None:
        super().__init__()
        self.config = config
        width, size = config.width, config.head_dim
        self.input_layernorm = RMSNorm(width, config.eps)
        self.self_attn = Attention(width, config.heads, config.kv_heads, size)
        self.cross_attn_layernorm = RMSNorm(width, config.eps)
        self.cross_attn = Lookup(width, config.heads, size)
        self.post_attention_layernorm = RMSNorm(width, config.eps)
        self.mlp = SwiGLU(width, config.inner, False)
        self.norm = RMSNorm(width, config.eps)

    def forward(
        self,
        hidden: Tensor,
        rotation: Rotation,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        cross_mask: Tensor | None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """[B, n, E] embeddings -> the head's input.

        keys, values  of the target's last layer
        """
        x = self.input_layernorm(hidden)
        queries = self.self_attn.queries(x, rotation)
        own_keys, own_values = self.self_attn.keys_values(x, rotation)
        if cache is not None:
            own_keys, own_values = cache.update(own_keys, own_values, 0)
        hidden = hidden + self.self_attn(queries, own_keys, own_values, mask)
        x = self.cross_attn_layernorm(hidden)
        hidden = hidden + self.cross_attn(x, rotation, keys, values, cross_mask)
        hidden = hidden + self.mlp(self.post_attention_layernorm(hidden))
        out: Tensor = self.norm(hidden)
        return out


class GlideDrafter(Reader):
    """Drafts with a GLIDE net. Unlike the GLIDE of MoA's authors, it does not apply RoPE to K
    twice."""

    name = "glide"
    net: GlideNet

    def __init__(self, net: GlideNet, target: Target, name: str = "glide") -> None:
        self.net = net
        self.name = name
        self.rope = Rope(target.head_dim, target.config.rope_parameters, target.context)

    def open(self, target: Target, capacity: int) -> None:
        self.rope.reserve(capacity)
        self.target = target
        self.ids = []
        sizes, device, dtype = self.net.config, target.device, target.dtype
        self.text = KVCache(device, sizes.kv_heads, sizes.head_dim, capacity, dtype)
        self.seen = KVCache(device, target.kv_heads, target.head_dim, capacity, dtype)

    def server_half(self, observation: Observation) -> ServerHalf:
        """K and V of the last layer [1, 2, G, n, d]."""
        return {"last_layer": observation.keys_values(last=1)}

    def half_shapes(self, target: Target, count: int) -> HalfShapes:
        return {"last_layer": (1, 2, target.kv_heads, count, target.head_dim)}

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        self.ids.extend(ids)
        self.seen.append(half["last_layer"])

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        count, past = len(tokens), self.text.length
        hidden = self.target.embed(tokens)[None]  # [1, n, E]
        rotation = self.rope.span(start, start + (count if seen is None else 1), hidden)
        mask = rows_mask(count, past, seen, hidden.device)
        last_layer = self.seen.read(0, self.seen.length)[0].unsqueeze(1).unbind()
        hidden = self.net(hidden, rotation, *last_layer, mask, None, self.text)
        self.text.advance(count)
        return self.target.head(hidden)[0]
