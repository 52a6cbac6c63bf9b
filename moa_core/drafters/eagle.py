"""EAGLE-2 (arXiv 2406.16858): one decoder layer that extrapolates the target's last feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from moa_core.decoding.tree import Frontier
from moa_core.drafters.base import HalfShapes, ServerHalf, Stepwise
from moa_core.model.cache import KVCache
from moa_core.model.joined import Linear
from moa_core.model.layers import DecoderLayer, Rope, rows_mask
from moa_core.model.target import Observation, Target
from moa_core.native.blocks import serves
from moa_core.native.chains import Chain, Layer, Product, ready


@dataclass(frozen=True)
class EagleConfig:
    """Sizes of an EAGLE head; heads and head size are free, as in its published configs."""

    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    eps: float
    fc_bias: bool = True
    qkv_bias: bool = False
    o_bias: bool = False


class EagleNet(nn.Module):
    """fc joins a token's embedding and the feature before it; one layer, without input norm."""

    def __init__(self, config: EagleConfig, width: int) -> None:
        super().__init__()
        self.config = config
        self.fc = Linear(2 * width, width, bias=config.fc_bias)
        layer = DecoderLayer(
            width,
            config.heads,
            config.kv_heads,
            config.inner,
            head_dim=config.head_dim,
            eps=config.eps,
            qkv_bias=config.qkv_bias,
            o_bias=config.o_bias,
            input_norm=False,
        )
        self.layers = nn.ModuleList([layer])

    def join(self, embedded: Tensor, features: Tensor) -> Tensor:
        """[.., E] embedding of token t + 1 and feature of token t -> input of the layer [.., E]."""
        joined: Tensor = self.fc(torch.cat([embedded, features], -1))
        return joined


class EagleDrafter(Stepwise):
    """Drafts with an EAGLE head. Features are the target's last hidden states after its norm.

    Row i of its cache belongs to feature i and token i + 1, and has position i: the shifted
    sequence of the authors' code.

    static  a tree of fixed shape, as in the first EAGLE (arXiv 2401.15077)
    """

    name = "eagle2"
    net: EagleNet

    def __init__(
        self, net: EagleNet, target: Target, name: str = "eagle2", static: bool = False
    ) -> None:
        self.net = net
        self._packed = Product(net.fc), Layer(net.layers[0])
        self.name = name
        self.static = static
        parameters = {
            "rope_type": "default",
            "rope_theta": target.config.rope_parameters["rope_theta"],
        }
        self.rope = Rope(net.config.head_dim, parameters, target.context)

    def open(self, target: Target, capacity: int) -> None:
        self.rope.reserve(capacity)
        self.target = target
        sizes = self.net.config
        self.cache = KVCache(
            [target.device], sizes.kv_heads, sizes.head_dim, capacity, target.dtype
        )
        self._chain: Chain | None = None
        if serves(target):
            fc, layer = self._packed
            self._chain = Chain("the net", fc.links(), layer.links(self.rope, self.cache))
        self.ids: list[int] = []  # verified tokens
        self.features: list[Tensor] = []  # of verified tokens not yet read, [n, E] each

    def server_half(self, observation: Observation) -> ServerHalf:
        """E numbers a token."""
        return {"features": observation.hidden}

    def half_shapes(self, target: Target, count: int) -> HalfShapes:
        return {"features": (count, target.config.hidden_size)}

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        self.ids.extend(ids)
        self.features.append(half["features"])

    def root(self, token: int) -> Tensor:
        if self.features:
            self._read(token)
        self._level = self._root
        return self.target.draft_logits(self._level)[0, 0]

    def _read(self, token: int) -> None:
        """Take in unread features, each with the token after it, of which the root is the last."""
        features = torch.cat(self.features)[None]  # [1, n, E]
        unread = [*self.ids[self.cache.length + 1 :], token]
        self._known = self.cache.length + len(unread)  # rows then, all of true features
        tokens = torch.tensor(unread, device=self.target.device)
        self._root = self._step(tokens, features, self.cache.length, None)[:, -1:]  # [1, 1, E]
        self.features.clear()

    def expand(self, frontier: Frontier) -> Tensor:
        """Each node is fed with its parent's drafted feature."""
        position = self._known + frontier.level - 1
        features = self._level[:, frontier.parents]
        self._level = self._step(frontier.tokens, features, position, frontier.seen)  # [1, b, E]
        return self.target.draft_logits(self._level)[0]

    def forget(self) -> None:
        self.cache.truncate(self._known)

    def _step(self, tokens: Tensor, features: Tensor, start: int, seen: Tensor | None) -> Tensor:
        """New tokens [n] of the text, or nodes at one position, with features [1, n, E].

        seen  [n, s] bool: what of the tree each node sees; None: they are text
        """
        count, past = len(tokens), self.cache.length
        if ready(self._chain, count):
            both = torch.cat([self.target.rows(tokens), features], -1)
            hidden = self._chain(both, past, start, seen=seen)
        else:
            hidden = self.net.join(self.target.embed(tokens)[None], features)  # [1, n, E]
            rotation = self.rope.span(start, start + (count if seen is None else 1), hidden)
            mask = rows_mask(count, past, seen, hidden.device)
            hidden = self.net.layers[0](hidden, rotation, mask=mask, cache=self.cache)
        self.cache.advance(count)
        return hidden
