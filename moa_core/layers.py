"""Decoder-layer pieces the drafters share. Tensor names are those of Hugging Face's Llama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, PretrainedConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from moa_core.cache import KVCache

Rotation = tuple[Tensor, Tensor]  # cos, and sin with its first half negated, each [B, 1, n, d]


class Rope:
    """Rotary position embedding by table: angles are computed once and looked up after.

    parameters  a config's `rope_parameters`: theta, type and what that type needs
    context     the model's longest text; the table itself grows as `reserve` asks
    """

    def __init__(self, head_dim: int, parameters: Mapping[str, Any], context: int) -> None:
        config = LlamaConfig(
            head_dim=head_dim, rope_parameters=dict(parameters), max_position_embeddings=context
        )
        self._source = LlamaRotaryEmbedding(config)
        self._tables: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        self._count = 0
        self.reserve(min(context, 1024))

    def reserve(self, count: int) -> None:
        """Make sure of the positions below `count`."""
        if count > self._count:
            self._count = count
            self._tables.clear()

    def __call__(self, positions: Tensor, like: Tensor) -> Rotation:
        """cos and signed sin [B, 1, n, d] for positions [B, n], of device and dtype of `like`."""
        key = (like.device, like.dtype)
        if key not in self._tables:
            with torch.inference_mode(False):  # training may use it later
                self._tables[key] = self._table().to(*key)
        cos, sin = self._tables[key][:, positions]  # [2, B, n, d]
        return cos[:, None], sin[:, None]

    def _table(self) -> Tensor:
        places = torch.arange(self._count, dtype=torch.float32)
        angles = places[:, None] * self._source.inv_freq.float()
        cos, sin = angles.cos(), angles.sin()
        # The half that `rotate` would negate is negated here, once.
        table = torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)])  # [2, T, d]
        return table * self._source.attention_scaling


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn [B, heads, n, d] by its positions; an element pairs with the one half a head away."""
    cos, sin = rotation
    low, high = x.chunk(2, -1)
    return torch.addcmul(x * cos, torch.cat([high, low], -1), sin)


class RMSNorm(nn.Module):
    """Root-mean-square norm, in float32 inside as in the target."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        # At 1; the authors' release draws fresh norm weights around 0.
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention whose keys and values may come from elsewhere."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        qkv_bias: bool = False,
        o_bias: bool = False,
    ) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.grouped = heads != kv_heads
        self.q_proj = nn.Linear(width, heads * head_dim, bias=qkv_bias)
        self.k_proj = nn.Linear(width, kv_heads * head_dim, bias=qkv_bias)
        self.v_proj = nn.Linear(width, kv_heads * head_dim, bias=qkv_bias)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=o_bias)

    def keys_values(self, x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """K (rotated) and V [B, G, n, d] of x [B, n, width]."""
        return rotate(self._split(self.k_proj(x)), rotation), self._split(self.v_proj(x))

    def forward(
        self,
        x: Tensor,
        rotation: Rotation,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        """Attend from x [B, n, width] to keys and values [B, G, m, d]; mask [B, 1, n, m] bool."""
        queries = rotate(self._split(self.q_proj(x)), rotation)  # [B, H, n, d]
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=self.grouped
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def weights(self, x: Tensor, rotation: Rotation, keys: Tensor) -> Tensor:
        """[B, H, n, m] float32: how `forward` mixes the values without a mask; rows sum to 1."""
        queries = rotate(self._split(self.q_proj(x)), rotation).float()  # [B, H, n, d]
        keys = keys.float().repeat_interleave(queries.shape[1] // keys.shape[1], 1)
        return (queries @ keys.mT / self.head_dim**0.5).softmax(-1)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [B, heads, n, d]


class SwiGLU(nn.Module):
    """The gated feed-forward block of Llama."""

    def __init__(self, width: int, inner: int, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=bias)
        self.up_proj = nn.Linear(width, inner, bias=bias)
        self.down_proj = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """A Llama decoder layer that can attend to itself, through a cache or not, or to a memory."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        inner: int,
        *,
        head_dim: int | None = None,
        eps: float = 1e-6,
        qkv_bias: bool = False,
        o_bias: bool = False,
        mlp_bias: bool = False,
        input_norm: bool = True,
    ) -> None:
        super().__init__()
        size = head_dim or width // heads
        self.self_attn = Attention(width, heads, kv_heads, size, qkv_bias, o_bias)
        self.mlp = SwiGLU(width, inner, mlp_bias)
        if input_norm:  # EAGLE's layer has none
            self.input_layernorm = RMSNorm(width, eps)
        self.post_attention_layernorm = RMSNorm(width, eps)
        self._input_norm = input_norm

    def forward(
        self,
        hidden: Tensor,
        rotation: Rotation,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KVCache | None = None,
        place: int = 0,
    ) -> Tensor:
        """Self-attention over hidden [B, n, width] and, with a cache, over what it holds.

        place  of this layer in the cache
        """
        normed = self._normed(hidden)
        keys, values = self.self_attn.keys_values(normed, rotation)
        if cache is not None:
            keys, values = cache.update(keys, values, place)
        return self._finish(hidden, self.self_attn(normed, rotation, keys, values, mask, causal))

    def memorise(self, memory: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """K and V [B, G, m, d] of a memory [B, m, width] for `attend`.

        The memory goes through the same input norm as the queries, as in the authors' code.
        """
        return self.self_attn.keys_values(self._normed(memory), rotation)

    def attend(
        self,
        hidden: Tensor,
        rotation: Rotation,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Cross-attention from hidden [B, n, width] to a memory's K and V."""
        normed = self._normed(hidden)
        return self._finish(hidden, self.self_attn(normed, rotation, keys, values, mask, False))

    def weights(self, hidden: Tensor, rotation: Rotation, keys: Tensor) -> Tensor:
        """[B, H, n, m] float32: where each row of hidden [B, n, width] looks in `attend`."""
        return self.self_attn.weights(self._normed(hidden), rotation, keys)

    def _normed(self, hidden: Tensor) -> Tensor:
        return self.input_layernorm(hidden) if self._input_norm else hidden

    def _finish(self, hidden: Tensor, attended: Tensor) -> Tensor:
        hidden = hidden + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


def as_ours(layer: nn.Module, config: PretrainedConfig) -> DecoderLayer | None:
    """A transformers layer's own weights in our decoder layer; None where it is not Llama's form.

    Ours skips what a general layer must do at each call (copies of K and V for grouped heads,
    wrappers): for drafting, where its rounding may differ.
    """
    attention, tensors = getattr(layer, "self_attn", None), layer.state_dict()
    if getattr(config, "hidden_act", "silu") != "silu" or getattr(attention, "head_dim", 0) == 0:
        return None
    with torch.device("meta"):
        ours = DecoderLayer(
            config.hidden_size,
            config.num_attention_heads,
            getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
            config.intermediate_size,
            head_dim=attention.head_dim,
            eps=getattr(config, "rms_norm_eps", 1e-6),
            qkv_bias="self_attn.q_proj.bias" in tensors,
            o_bias="self_attn.o_proj.bias" in tensors,
            mlp_bias="mlp.down_proj.bias" in tensors,
        )
    shapes = {name: tensor.shape for name, tensor in ours.state_dict().items()}
    if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
        return None
    ours.load_state_dict(tensors, assign=True)
    return ours.requires_grad_(False).eval()


def causal_mask(count: int, past: int, device: torch.device) -> Tensor | None:
    """[1, 1, n, past + n] bool for n new rows after `past` ones; None where no mask is needed."""
    if count == 1:
        return None
    mask = torch.ones(count, past + count, dtype=torch.bool, device=device)
    return mask.tril(past)[None, None]


def tree_mask(seen: Tensor, known: int) -> Tensor:
    """[1, 1, b, known + s] bool: every known slot, then what each node has above it."""
    return F.pad(seen, (known, 0), value=True)[None, None]
