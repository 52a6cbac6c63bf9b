"""The layers of a drafter, each as one call of a compiled kernel.

Each answers None where torch is to do it: see `kernels_for`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moa_core.cache import Held, KVCache
from moa_core.native.packing import (
    CrossAttention,
    FeedForward,
    KeysValues,
    LayerAttention,
    Matrix,
    Part,
    Scale,
    SelfAttention,
)
from moa_core.native.switch import kernels, prepare

ROWS = 12  # of an input: with more, torch's products win
NO_MASK = np.empty((0, 0), np.bool_)
Floats = NDArray[np.float32]


def serves(target: Any) -> bool:
    """Whether kernels may draft for a target: in float32, on a processor, not to be eager."""
    return bool(target.device.type == "cpu" and target.dtype == torch.float32 and target.graphs)


def prepare_for(target: Any, later: bool = False) -> None:
    """Have the kernels, if they may draft for this target: see `switch.prepare`."""
    if serves(target):
        prepare(later)


def kernels_for(x: Tensor) -> Any:
    """The kernels; None where they do not serve: float32 on a processor, few rows, no gradients."""
    if (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() <= ROWS * x.shape[-1]
        and not torch.is_grad_enabled()
    ):
        return kernels()
    return None


class _Block:
    """Parts of a net that one kernel does."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts
        self._fits = all(part.fits for part in parts)

    def _kernels(self, x: Tensor) -> Any:
        return kernels_for(x) if self._fits else None

    def _packed(self) -> list[Any]:
        """What a kernel is given of each part, one after the other."""
        return [each for part in self._parts for each in part.packed()]


class OverItself(_Block):
    """A decoder layer that attends to itself through a cache."""

    def __init__(self, layer: Any) -> None:
        super().__init__(*_layer(layer, SelfAttention))

    def __call__(
        self,
        hidden: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor | None,
        cache: KVCache,
        place: int,
    ) -> Tensor | None:
        """hidden [1, n, E], mask [1, 1, n, m] bool, cos and sin [1, 1, n or 1, d] -> [1, n, E]."""
        if (kernels := self._kernels(hidden)) is None or (held := cache.held(place)) is None:
            return None
        if mask is None and hidden.shape[1] > 1:
            return None
        found = kernels.layer_over_itself(
            _rows(hidden), *self._packed(), _rows(cos), _rows(sin), *_own(held, cache, mask)
        )
        held.done = cache.length + hidden.shape[1]
        return _tensor(found, hidden.shape)


class OverMemory(_Block):
    """A decoder layer that attends to what a cache holds."""

    def __init__(self, layer: Any) -> None:
        super().__init__(*_layer(layer, CrossAttention))

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, held: Held, count: int
    ) -> Tensor | None:
        """hidden [1, n, E], which sees the first `count` slots -> [1, n, E]."""
        if (kernels := self._kernels(hidden)) is None:
            return None
        found = kernels.layer_over_memory(
            _rows(hidden), *self._packed(), _rows(cos), _rows(sin), *held.arrays, count, held.done
        )
        held.done = count
        return _tensor(found, hidden.shape)


class OverBoth(_Block):
    """GLIDE's layer: over itself, over the target's last layer, and its norm at the end."""

    def __init__(self, net: Any) -> None:
        super().__init__(
            SelfAttention(net.self_attn, net.input_layernorm),
            CrossAttention(net.cross_attn, net.cross_attn_layernorm),
            FeedForward(net.mlp, net.post_attention_layernorm),
            Scale(net.norm),
        )

    def __call__(
        self,
        hidden: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor | None,
        cache: KVCache,
        seen: Held,
        count: int,
    ) -> Tensor | None:
        """hidden [1, n, E] -> the same; seen: `count` slots, K and V of the target's last layer."""
        if (kernels := self._kernels(hidden)) is None or (held := cache.held(0)) is None:
            return None
        if mask is None and hidden.shape[1] > 1:
            return None
        found = kernels.layer_over_both(
            _rows(hidden),
            *self._packed(),
            _rows(cos),
            _rows(sin),
            *_own(held, cache, mask),
            *seen.arrays,
            count,
            seen.done,
        )
        held.done, seen.done = cache.length + hidden.shape[1], count
        return _tensor(found, hidden.shape)


class Remember(_Block):
    """MoA's server half: LSA for the last layer of each token, and CA's K and V of it."""

    def __init__(self, net: Any) -> None:
        lsa, ca = net.layer_self_attention, net.cross_attention
        super().__init__(
            LayerAttention(lsa.self_attn, lsa.input_layernorm),
            FeedForward(lsa.mlp, lsa.post_attention_layernorm),
            Matrix(net.Ekv2E),
            KeysValues(ca.self_attn, ca.input_layernorm),
        )

    def serves(self, hidden: Tensor) -> bool:
        """Whether a kernel is there for so many tokens [n, E]."""
        return self._kernels(hidden) is not None

    def __call__(
        self, tokens: Tensor, layers: tuple[Tensor, Tensor], places: tuple[Tensor, Tensor]
    ) -> Tensor:
        """K and V of all layers [n, L, W] -> CA's [1, 2, G, n, d].

        layers, places  rotations by layer and by token, [1, 1, L or n, d] each
        """
        found = kernels().remember(
            tokens.numpy(), *self._packed(), *map(_rows, layers), *map(_rows, places)
        )
        return _tensor(found, (1, *found.shape))


class Product(_Block):
    """One linear layer."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(Matrix(linear))
        self._outer = linear.out_features

    def __call__(self, x: Tensor) -> Tensor | None:
        """[.., in] -> [.., out]"""
        if (kernels := self._kernels(x)) is None:
            return None
        found = kernels.linear(_rows(x), *self._packed())
        return _tensor(found, (*x.shape[:-1], self._outer))


class Norm(_Block):
    """A norm by itself."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__(Scale(norm))

    def __call__(self, x: Tensor) -> Tensor | None:
        """[.., width] -> the same"""
        if (kernels := self._kernels(x)) is None:
            return None
        return _tensor(kernels.normed(_rows(x), *self._packed()), x.shape)


def best(logits: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
    """Log-probabilities and ids [n, count] of the most probable tokens after logits [n, V]."""
    if (kernels := kernels_for(logits)) is None:
        return None
    log_probs, ids = kernels.best(_rows(logits), count)
    return torch.from_numpy(log_probs), torch.from_numpy(ids)


def _layer(layer: Any, attention: type[SelfAttention | CrossAttention]) -> tuple[Part, Part]:
    """The parts of a decoder layer; EAGLE's has no norm before its attention."""
    norm = getattr(layer, "input_layernorm", None)
    return attention(layer.self_attn, norm), FeedForward(layer.mlp, layer.post_attention_layernorm)


def _own(held: Held, cache: KVCache, mask: Tensor | None) -> tuple[Any, ...]:
    """What a kernel is given of a cache that it writes to."""
    seen = NO_MASK if mask is None else mask.numpy()[0, 0]
    return *held.arrays, cache.length, held.done, seen


def _rows(x: Tensor) -> Floats:
    """[.., width] as [n, width], in one piece: numpy's views take less than torch's."""
    return np.ascontiguousarray(x.numpy().reshape(-1, x.shape[-1]))


def _tensor(found: Floats, shape: Sequence[int]) -> Tensor:
    return torch.from_numpy(found.reshape(shape))
