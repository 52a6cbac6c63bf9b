"""EAGLE-3 (arXiv 2503.01840): one decoder layer over features of three of the target's layers.

The published heads and those of their successor EAGLE 3.1 differ in a few norms; the files say
which ones exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from moa_core.drafters.base import HalfShapes, ServerHalf
from moa_core.drafters.eagle import FeatureDrafter
from moa_core.errors import UserError
from moa_core.model.cache import KVCache
from moa_core.model.layers import Attention, DecoderLayer, RMSNorm, Rope, Rotation
from moa_core.model.target import Matrix, Observation, Target


@dataclass(frozen=True)
class Eagle3Config:
    """Sizes of an EAGLE-3 head, and which of its optional parts it has.

    width        E
    layers       the target's layers whose inputs are its features
    features     the width of each of these inputs
    words        D, if it has a head of its own for the tokens that it can draft; None: the target's
    head_norms   Qwen3's norms over each head of Q and K
    norm_before  one norm over all features before `fc`
    norm_each    a norm for each layer's feature before `fc` (EAGLE 3.1)
    norm_residual  whether the residual of attention is the normed feature
    norm_output  whether the next draft reads the normed state (EAGLE 3.1)
    embeddings   V, if it has its own token embeddings; None: the target's
    """

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    eps: float
    layers: tuple[int, ...]
    features: int
    words: int | None = None
    fc_bias: bool = False
    qkv_bias: bool = False
    head_norms: bool = False
    norm_before: bool = False
    norm_each: bool = False
    norm_residual: bool = False
    norm_output: bool = False
    embeddings: int | None = None


class MidLayer(DecoderLayer):
    """A decoder layer whose attention reads an embedding and a feature side by side."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__(
            config.width,
            config.heads,
            config.kv_heads,
            config.inner,
            head_dim=config.head_dim,
            eps=config.eps,
            qkv_bias=config.qkv_bias,
            head_norms=config.head_norms,
            reads=2 * config.width,
        )
        self.hidden_norm = RMSNorm(config.width, config.eps)
        self.norm_residual = config.norm_residual

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """The input of attention [.., 2E], and its residual [.., E]."""
        normed = self.hidden_norm(features)
        joined = torch.cat([self.input_layernorm(embedded), normed], -1)
        return joined, normed if self.norm_residual else features


class Eagle3Net(nn.Module):
    """fc fuses several layers' features; a layer joins the result with the next embedding.

    Tensor names are those of SafeAILab's files.
    """

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        width, eps, count = config.width, config.eps, len(config.layers)
        self.fc = nn.Linear(count * config.features, width, bias=config.fc_bias)
        self.midlayer = MidLayer(config)
        self.norm = RMSNorm(width, eps)
        if config.norm_before:
            self.input_norm = RMSNorm(count * config.features, eps)
        if config.norm_each:
            self.fc_norm = nn.ModuleList(RMSNorm(config.features, eps) for _ in range(count))
        if config.words:
            self.lm_head = nn.Linear(width, config.words, bias=False)
        if config.embeddings:
            self.embed_tokens = nn.Embedding(config.embeddings, width)

    def fuse(self, tapped: Tensor) -> Tensor:
        """Features of all layers, side by side -> [.., E]."""
        if self.config.norm_before:
            tapped = self.input_norm(tapped)
        if self.config.norm_each:
            parts = tapped.split(self.config.features, -1)
            tapped = torch.cat(
                [norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1
            )
        fused: Tensor = self.fc(tapped)
        return fused

    def forward(
        self,
        embedded: Tensor,
        features: Tensor,
        rotation: Rotation,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Embeddings of tokens t + 1, features of tokens t -> the next features, [.., E] each."""
        layer = self.midlayer
        joined, residual = layer.join(embedded, features)
        queries = layer.self_attn.queries(joined, rotation)
        keys, values = layer.self_attn.keys_values(joined, rotation)
        if cache is not None:
            keys, values = cache.update(keys, values, 0)
        hidden = layer.feed(residual + layer.self_attn(queries, keys, values, mask))
        return self.norm(hidden) if self.config.norm_output else hidden

    def words(self, hidden: Tensor) -> Tensor:
        """[.., E] the head's input for a feature."""
        normed: Tensor = hidden if self.config.norm_output else self.norm(hidden)
        return normed


class Eagle3Drafter(FeatureDrafter):
    """Drafts with an EAGLE-3 head.

    rope  a config's `rope_parameters`; None: the target's theta
    """

    net: Eagle3Net

    def __init__(
        self,
        net: Eagle3Net,
        target: Target,
        name: str = "eagle3",
        rope: Mapping[str, Any] | None = None,
    ) -> None:
        if any(not 0 <= layer < len(target.layers) for layer in net.config.layers):
            raise UserError(
                f"{name} reads the target's layers {', '.join(map(str, net.config.layers))}, and "
                f"this target has {len(target.layers)}."
            )
        self.net = net
        self.name = name
        plain = {"rope_type": "default", "rope_theta": target.config.rope_parameters["rope_theta"]}
        self.rope = Rope(net.config.head_dim, rope or plain, target.context)

    @property
    def attention(self) -> Attention:
        return self.net.midlayer.self_attn

    def head_for(self, target: Target) -> Matrix:
        own = self.net.config.words
        return cast(Matrix, self.net.lm_head) if own else super().head_for(target)

    def serve(self, target: Target, capacity: int) -> None:
        target.taps = self.net.config.layers

    def server_half(self, observation: Observation) -> ServerHalf:
        """E numbers per token."""
        tapped = observation.hidden[:, : self.net.fc.in_features]
        return {"features": self.net.fuse(tapped)}

    def half_shapes(self, target: Target, count: int) -> HalfShapes:
        return {"features": (count, self.net.config.width)}

    def embed(self, tokens: Tensor) -> Tensor:
        return (
            self.net.embed_tokens(tokens) if self.net.config.embeddings else super().embed(tokens)
        )

    def logits(self, hidden: Tensor) -> Tensor:
        return self.head(self.net.words(hidden))


def default_layers(count: int) -> tuple[int, int, int]:
    """The layers that EAGLE-3 reads of a target with `count` layers: the authors' choice if these
    differ, else the first, the middle and the last."""
    theirs = 2, count // 2, count - 3
    return theirs if theirs[0] < theirs[1] < theirs[2] else (0, count // 2, count - 1)
