"""Decoder-layer parts that the drafters share. Tensor names follow Hugging Face's Llama."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import LlamaConfig, PretrainedConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from moa_core.model.cache import KVCache

# transformers' layers like Llama's: none has a factor or a norm that ours lacks.
KNOWN = {"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer"}
Rotation = tuple[Tensor, Tensor]  # cos, and sin with its first half negated, each [B, 1, n, d]


class RMSNorm(nn.Module):
    """x divided by its root mean square, times a weight per element; float32 inside, as in the
    target."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        # Starts at 1; the authors' release draws new norm weights around 0.
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[.., width] -> the same"""
        if x.dtype == torch.float32 or not torch.is_grad_enabled():
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        # In mixed-precision training, float32 weights make a float32 result, as in transformers.
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Rope:
    """Rotary position embedding by table: angles are computed once and then looked up.

    parameters  a config's `rope_parameters`: theta, type and that type's options
    context     the model's longest text; the table grows with `reserve`
    """

    def __init__(self, head_dim: int, parameters: Mapping[str, Any], context: int) -> None:
        config = LlamaConfig(
            head_dim=head_dim, rope_parameters=dict(parameters), max_position_embeddings=context
        )
        self.parameters = dict(parameters)
        self._source = LlamaRotaryEmbedding(config)
        self._tables: dict[Any, tuple[Tensor, Tensor, Tensor]] = {}  # by device, dtype and count
        self._count = 0
        self.reserve(min(context, 1024))

    def reserve(self, count: int) -> None:
        """Make sure that the table covers the positions below `count`."""
        if count > self._count:
            self._count = count
            self._tables.clear()

    def __call__(self, positions: Tensor, like: Tensor) -> Rotation:
        """cos and signed sin [B, 1, n, d] for positions [B, n], with `like`'s device and dtype."""
        cos, sin = self._as(like)[0][:, positions]  # [2, B, n, d]
        return cos[:, None], sin[:, None]

    def span(self, start: int, stop: int, like: Tensor) -> Rotation:
        """A view of the same for positions start..stop of one text, [1, 1, stop - start, d]. One
        position serves any number of rows."""
        _, cos, sin = self._as(like)
        return cos.narrow(2, start, stop - start), sin.narrow(2, start, stop - start)

    def tables(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """cos and signed sin [T, d] of all positions."""
        cos, sin = self._as(torch.empty(0, dtype=torch.float32, device="cpu"))[0].numpy()
        return cos, sin

    def _as(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The table [2, T, d] with `like`'s device and dtype, and its halves [1, 1, T, d]."""
        # The count is in the key because another thread may reserve more meanwhile.
        key = device, dtype, count = like.device, like.dtype, self._count
        if (found := self._tables.get(key)) is None:
            with torch.inference_mode(False):  # training may use it later
                table = self._table(count).to(device, dtype)
                cos, sin = table[:, None, None]
            found = self._tables[key] = table, cos, sin
        return found

    def _table(self, count: int) -> Tensor:
        places = torch.arange(count, dtype=torch.float32)
        angles = places[:, None] * self._source.inv_freq.float()
        cos, sin = angles.cos(), angles.sin()
        # The half that `rotate` would negate is negated here, once.
        table = torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)])  # [2, T, d]
        return table * float(self._source.attention_scaling)


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotate [B, heads, n, d] by position; an element pairs with the one half a head away."""
    cos, sin = rotation
    low, high = x.chunk(2, -1)
    return torch.addcmul(x * cos, torch.cat([high, low], -1), sin)


def grouped_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attention of Q [1, H, n, d] to K and V [1, G, m, d] under a mask [1, 1, n, m]: [1, H, n, d].

    For GPUs. Each group is a batch row whose heads share K and V without a copy. Torch has no fast
    kernel for `enable_gqa` with a mask: it copies K and V for each head and stores all weights.
    """
    groups, each = keys.shape[1], queries.shape[1] // keys.shape[1]
    apart = queries[0].unflatten(0, (groups, each))  # [G, H / G, n, d]
    keys, values = (one[0][:, None].expand(-1, each, -1, -1) for one in (keys, values))
    return F.scaled_dot_product_attention(apart, keys, values, mask).flatten(0, 1)[None]


@dataclass(frozen=True)
class LayerSizes:
    """Sizes of a decoder layer. inner: width of its feed-forward block; eps: of its norms."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    eps: float


class Attention(nn.Module):
    """Grouped-query attention whose keys and values may come from elsewhere."""

    def __init__(
        self, sizes: LayerSizes, qkv_bias: bool, o_bias: bool, head_norms: bool, reads: int
    ) -> None:
        """reads: the input width of Q, K and V."""
        super().__init__()
        size, eps = sizes.head_dim, sizes.eps
        self.head_dim, self.heads, self.kv_heads = size, sizes.heads, sizes.kv_heads
        self.grouped = self.heads != self.kv_heads
        self.q_proj = nn.Linear(reads, self.heads * size, bias=qkv_bias)
        self.k_proj = nn.Linear(reads, self.kv_heads * size, bias=qkv_bias)
        self.v_proj = nn.Linear(reads, self.kv_heads * size, bias=qkv_bias)
        self.o_proj = nn.Linear(self.heads * size, sizes.width, bias=o_bias)
        self.head_norms = head_norms
        if head_norms:  # Qwen3's, over each head of Q and K
            self.q_norm, self.k_norm = RMSNorm(size, eps), RMSNorm(size, eps)

    def queries(self, x: Tensor, rotation: Rotation) -> Tensor:
        """Q (rotated) [B, H, n, d] of x [B, n, width]."""
        queries = self._split(self.q_proj(x))
        return rotate(self.q_norm(queries) if self.head_norms else queries, rotation)

    def keys_values(self, x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """K (rotated) and V [B, G, n, d] of x [B, n, width]."""
        keys, values = self._split(self.k_proj(x)), self._split(self.v_proj(x))
        return rotate(self.k_norm(keys) if self.head_norms else keys, rotation), values

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attention of Q [B, H, n, d] to K and V [B, G, m, d], mask [B, 1, n, m]: [B, n, width]."""
        if self.grouped and mask is not None and queries.is_cuda and len(queries) == 1:
            mixed = grouped_attention(queries, keys, values, mask)
        elif self.grouped and mask is not None and len(queries) > 1 and queries.shape[2] == 1:
            # One new token of each of many texts: the heads that share K and V become rows. With
            # `enable_gqa` this takes five times as long in bf16 on a CPU.
            rows = queries.unflatten(1, (keys.shape[1], -1)).squeeze(3)  # [B, G, H / G, d]
            mixed = F.scaled_dot_product_attention(rows, keys, values, mask).flatten(1, 2)
            mixed = mixed.unsqueeze(2)  # [B, H, 1, d]
        else:
            mixed = F.scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=self.grouped
            )
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        split: Tensor = x.unflatten(-1, (-1, self.head_dim))
        return split.transpose(1, 2)  # [B, heads, n, d]


class SwiGLU(nn.Module):
    """The gated feed-forward block of Llama."""

    def __init__(self, width: int, inner: int, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=bias)
        self.up_proj = nn.Linear(width, inner, bias=bias)
        self.down_proj = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """[.., width] -> the same"""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DecoderLayer(nn.Module):
    """A Llama decoder layer that can attend to itself, through a cache or not, or to a memory."""

    def __init__(
        self, sizes: LayerSizes, *, qkv_bias: bool = False, o_bias: bool = False,
        mlp_bias: bool = False, input_norm: bool = True, head_norms: bool = False,
        reads: int | None = None,
    ) -> None:  # fmt: skip
        """reads: the input width of attention, if it is not the layer's."""
        super().__init__()
        width, eps = sizes.width, sizes.eps
        self.self_attn = Attention(sizes, qkv_bias, o_bias, head_norms, reads or width)
        self.mlp = SwiGLU(width, sizes.inner, mlp_bias)
        # EAGLE's layer has none.
        self.input_layernorm = RMSNorm(width, eps) if input_norm else nn.Identity()
        self.post_attention_layernorm = RMSNorm(width, eps)

    def forward(
        self, hidden: Tensor, rotation: Rotation, *, mask: Tensor | None = None,
        causal: bool = False, cache: KVCache | None = None, place: int = 0,
    ) -> Tensor:  # fmt: skip
        """Self-attention over hidden [B, n, width] and, with a cache, over its tokens.

        place  of this layer in the cache
        """
        x = self.input_layernorm(hidden)
        queries = self.self_attn.queries(x, rotation)
        keys, values = self.self_attn.keys_values(x, rotation)
        if cache is not None:
            keys, values = cache.update(keys, values, place)
        return self.feed(hidden + self.self_attn(queries, keys, values, mask, causal))

    def memorise(self, memory: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """K and V [B, G, m, d] of a memory [B, m, width] for `attend`.

        The memory goes through the same input norm as the queries, as in the authors' code.
        """
        return self.self_attn.keys_values(self.input_layernorm(memory), rotation)

    def attend(
        self, hidden: Tensor, rotation: Rotation, keys: Tensor, values: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Cross-attention from hidden [B, n, width] to a memory's K and V [B, G, m, d]."""
        queries = self.self_attn.queries(self.input_layernorm(hidden), rotation)
        return self.feed(hidden + self.self_attn(queries, keys, values, mask))

    def weights(self, hidden: Tensor, rotation: Rotation, keys: Tensor) -> Tensor:
        """[B, H, n, m] float32: the weights of `attend` for each row of hidden [B, n, width]; rows
        sum to 1."""
        queries = self.self_attn.queries(self.input_layernorm(hidden), rotation).float()
        keys = keys.float().repeat_interleave(queries.shape[1] // keys.shape[1], 1)
        return (queries @ keys.mT / float(queries.shape[-1] ** 0.5)).softmax(-1)

    def feed(self, hidden: Tensor) -> Tensor:
        """The feed-forward block, its norm and the sum: [.., width] -> the same."""
        fed: Tensor = self.mlp(self.post_attention_layernorm(hidden))
        return hidden + fed


def as_ours(layer: nn.Module, config: PretrainedConfig) -> DecoderLayer | None:
    """Our decoder layer around the parts of a transformers layer; None if it has another form.

    Ours skips the overhead of a general layer: wrappers, and copies of K and V for each head.
    """
    if type(layer).__name__ not in KNOWN or getattr(config, "hidden_act", "") != "silu":
        return None
    linears = [module for module in layer.modules() if hasattr(module, "in_features")]
    if any(type(module) is not nn.Linear for module in linears):  # quantised, or with an adapter
        return None
    attention: Any = layer.self_attn  # of several classes
    mlp: Any = layer.mlp
    with torch.device("meta"):
        size = attention.head_dim
        heads, groups = (one.out_features // size for one in (attention.q_proj, attention.k_proj))
        inner = mlp.gate_proj.out_features
        ours = DecoderLayer(
            LayerSizes(config.hidden_size, heads, groups, size, inner, config.rms_norm_eps),
            qkv_bias=attention.q_proj.bias is not None,
            o_bias=attention.o_proj.bias is not None,
            mlp_bias=mlp.down_proj.bias is not None,
            head_norms=hasattr(attention, "q_norm"),
        )
    _adopt(ours, layer)
    return ours.eval()


def _adopt(ours: nn.Module, theirs: Any) -> None:
    """Take over the linear layers and norm weights of `theirs`."""
    for name, part in list(ours.named_children()):
        other = getattr(theirs, name)
        if isinstance(part, nn.Linear):
            setattr(ours, name, other)
        elif isinstance(part, RMSNorm):
            part.weight = other.weight
        elif isinstance(part, Attention | SwiGLU):
            _adopt(part, other)


def rows_mask(count: int, past: int, seen: Tensor | None, device: torch.device) -> Tensor | None:
    """Mask of n new rows after `past` slots: [1, 1, n, past + n] bool, or None if all is visible.

    seen  [n, s] bool: rows are nodes, and each sees these of the last s slots; None: rows follow
          one another in the text
    """
    if seen is not None:
        return tree_mask(seen, past + count - seen.shape[1])
    if count == 1:
        return None
    return torch.ones(count, past + count, dtype=torch.bool, device=device).tril(past)[None, None]


def tree_mask(seen: Tensor, known: int) -> Tensor:
    """[1, 1, b, known + s] bool: every known slot, then each node's ancestors."""
    if seen.device.type == "cpu":  # three times as fast
        mask = np.ones((1, 1, len(seen), known + seen.shape[1]), np.bool_)
        mask[..., known:] = seen.numpy()
        return torch.from_numpy(mask)
    return F.pad(seen, (known, 0), value=True)[None, None]
