"""Mixture of Attentions (arXiv 2410.03804): drafting from the K and V of all target layers.

Layer Self-Attention (LSA) condenses K and V of every layer for a verified token into a memory.
Self-attention (SA) reads the text so far, cross-attention (CA) reads the memory, and with Target
Layer Inference (TLI) the target's last N layers follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from moa_core.drafters.base import HalfShapes, Reader, ServerHalf
from moa_core.errors import UserError
from moa_core.model.cache import KVCache, token_vectors
from moa_core.model.layers import DecoderLayer, Rope, rows_mask
from moa_core.model.target import Observation, Target

LSA_CHUNK = 512  # verified tokens per LSA call: each token needs W * L numbers


@dataclass(frozen=True)
class Sizes:
    """What may differ between SA, CA and LSA."""

    heads: int
    kv_heads: int
    head_dim: int
    inner: int  # width of the feed-forward block


@dataclass(frozen=True)
class MoAConfig:
    """Sizes of a MoA drafter.

    width     E, the target's hidden size
    kv_width  W, two times the target's kv heads times its head size: the width of LSA
    biases    of the SA layer, whose form follows the target's layers
    lsa       None: read only the last layer's K and V
    pool      how LSA's rows, one per layer, become one: their "mean", as in the paper, or the
              "last" row, which attends to all others
    """

    width: int
    kv_width: int
    sa: Sizes
    ca: Sizes
    lsa: Sizes | None
    eps: float
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    pool: str = "mean"

    def __post_init__(self) -> None:
        if self.pool not in ("mean", "last"):
            raise UserError(f"LSA's pooling is mean or last, not {self.pool!r}.")
        if self.lsa and (
            self.lsa.heads * self.lsa.head_dim != self.kv_width or self.lsa.head_dim % 2
        ):
            raise UserError(
                f"LSA's width {self.kv_width} cannot be split into {self.lsa.heads} heads of an "
                "even size: give another number of LSA heads."
            )


class MoANet(nn.Module):
    """The trainable parts. Embeddings and head are the target's."""

    def __init__(self, config: MoAConfig) -> None:
        super().__init__()
        self.config = config
        biases = {key: getattr(config, key) for key in ("qkv_bias", "o_bias", "mlp_bias")}
        self.self_attention = _layer(config.width, config.sa, config, **biases)
        self.cross_attention = _layer(config.width, config.ca, config)
        if config.lsa:
            self.layer_self_attention = _layer(config.kv_width, config.lsa, config)
        self.Ekv2E = nn.Linear(config.kv_width, config.width)

    def memory(self, vectors: Tensor, layer_rope: Rope | None) -> Tensor:
        """LSA: K and V of all layers [n, L, W] -> memory [n, E], for each token (section 3.1).

        Attention over layers without a mask, with the layer index as position. Then the mean over
        layers or, with pool "last", only the last layer's row.
        """
        memory: Tensor
        if self.config.lsa is None:
            memory = self.Ekv2E(vectors[:, -1])
            return memory
        assert layer_rope is not None
        lsa, count = self.layer_self_attention, vectors.shape[1]
        rotation = layer_rope.span(0, count, vectors)
        if self.config.pool == "mean":
            memory = self.Ekv2E(lsa(vectors, rotation).mean(1))  # [n, L, W] -> [n, E]
            return memory
        keys_values = lsa.memorise(vectors, rotation)
        last = layer_rope.span(count - 1, count, vectors)
        memory = self.Ekv2E(lsa.attend(vectors[:, -1:], last, *keys_values)[:, 0])  # [n, E]
        return memory


def _layer(width: int, sizes: Sizes, config: MoAConfig, **biases: bool) -> DecoderLayer:
    return DecoderLayer(
        width,
        sizes.heads,
        sizes.kv_heads,
        sizes.inner,
        head_dim=sizes.head_dim,
        eps=config.eps,
        **biases,
    )


class MoADrafter(Reader):
    """Drafts with a MoA net, reusing the target's last `tli` layers."""

    net: MoANet
    tli: int

    def __init__(self, net: MoANet, target: Target, tli: int = 0, name: str = "") -> None:
        if not 0 <= tli <= len(target.layers):
            raise UserError(
                f"TLI N must be from 0 to {len(target.layers)}, this target's number of layers."
            )
        self.net = net
        self.tli = tli
        self.name = name or f"moa-n{tli}"
        parameters = target.config.rope_parameters
        plain = {"rope_type": "default", "rope_theta": parameters["rope_theta"]}
        sizes = net.config
        # Scaled RoPE, if the target has it, is used only in SA, as in the authors' code.
        self.sa_rope = Rope(sizes.sa.head_dim, parameters, target.context)
        self.ca_rope = Rope(sizes.ca.head_dim, plain, target.context)
        lsa = sizes.lsa
        self.layer_rope = Rope(lsa.head_dim, plain, len(target.layers)) if lsa else None

    def open(self, target: Target, capacity: int) -> None:
        def cache(sizes: Sizes) -> KVCache:
            return KVCache(target.device, sizes.kv_heads, sizes.head_dim, capacity, target.dtype)

        self.serve(target, capacity)
        self.sa_rope.reserve(capacity)
        self.target, self.head = target, self.head_for(target)
        self.ids: list[int] = []  # verified tokens
        sizes = self.net.config
        self.text = cache(sizes.sa)  # SA's, drafts included
        self.memory = cache(sizes.ca)  # CA's, verified only
        self.tail = target.tail_cache(self.tli, capacity) if self.tli else None

    def serve(self, target: Target, capacity: int) -> None:
        self.ca_rope.reserve(capacity)

    def server_half(self, observation: Observation) -> ServerHalf:
        """CA's K and V [1, 2, G_ca, n, d]; for N > 0 the true K and V of the last N layers."""
        half = {"memory": self._memory(observation)}
        if self.tli:
            half["tail"] = observation.keys_values(last=self.tli)
        return half

    def half_shapes(self, target: Target, count: int) -> HalfShapes:
        sizes = self.net.config.ca
        shapes: HalfShapes = {"memory": (1, 2, sizes.kv_heads, count, sizes.head_dim)}
        if self.tli:
            shapes["tail"] = (self.tli, 2, target.kv_heads, count, target.head_dim)
        return shapes

    def _memory(self, observation: Observation) -> Tensor:
        """LSA, then CA's K and V of the memory, [1, 2, G_ca, n, d]. A long prompt is read in parts,
        so that only one part's K and V of all layers are copied at a time."""
        start, count = observation.start, len(observation.ids)
        parts = [observation.part(at, at + LSA_CHUNK) for at in range(0, count, LSA_CHUNK)]
        vectors = (token_vectors(part.keys_values()) for part in parts)
        memory = torch.cat([self.net.memory(part, self.layer_rope) for part in vectors])  # [n, E]
        rotation = self.ca_rope.span(start, start + count, memory)
        return torch.stack(self.net.cross_attention.memorise(memory[None], rotation), 1)

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        self.ids.extend(ids)
        self.memory.append(half["memory"])
        if self.tail is not None:
            self.tail.append(half["tail"])

    def query(self, token: int) -> Tensor:
        """[1, 1, E] SA's output at the newest token, the root: CA's query."""
        past = min(self.text.length, len(self.ids))  # a root read before is read again
        self.text.truncate(past)
        tokens = torch.tensor([*self.ids[past:], token], device=self.text.device)
        return self._read(tokens, past, None)[:, -1:]

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        hidden = self._read(tokens, start, seen)
        if seen is None:  # CA and the layers after it run only for the newest token
            hidden, start = hidden[:, -1:], start + len(tokens) - 1
        rotation = self.ca_rope.span(start, start + 1, hidden)
        memory = self.memory.read(0, self.memory.length)[0].unsqueeze(1).unbind()
        hidden = self.net.cross_attention.attend(hidden, rotation, *memory)
        if self.tail is not None:
            hidden = self._reuse(hidden, start, seen, self.tail)
        return self.head(hidden)[0]

    def forget(self) -> None:
        super().forget()
        if self.tail is not None:
            self.tail.truncate(len(self.ids))  # the root's true K and V are not known yet

    def _read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        """SA over new tokens [n] of the text, or over nodes at one position -> [1, n, E]."""
        count, past = len(tokens), self.text.length
        hidden: Tensor = self.target.embed(tokens)[None]
        rotation = self.sa_rope.span(start, start + (count if seen is None else 1), hidden)
        mask = rows_mask(count, past, seen, hidden.device)
        hidden = self.net.self_attention(hidden, rotation, mask=mask, cache=self.text)
        self.text.advance(count)
        return hidden

    def _reuse(self, hidden: Tensor, position: int, seen: Tensor | None, tail: KVCache) -> Tensor:
        """TLI: the target's last N layers and norm, [1, n, E]."""
        count, past = hidden.shape[1], tail.length
        places = torch.full((1, count), position, device=hidden.device)
        mask = rows_mask(count, past, seen, hidden.device)
        hidden = self.target.read_layers(hidden, places, mask, tail, self.tli)
        tail.advance(count)
        return hidden
