"""Weights as the compiled kernels read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moa_core.native.switch import tile

COLUMNS = 64  # as `machine.COLUMNS`
LARGEST = 1 << 21  # numbers of a matrix; a guess: larger ones are worth torch's threads
Weights = NDArray[np.int8]
Vectors = NDArray[np.float32]
Affine = tuple[Tensor, Tensor]  # matrix [out, in] and bias [out]


def mark(module: nn.Module) -> tuple[int, int]:
    """Address and version of a layer's weights: others, once they are trained or exchanged."""
    weight = module._parameters["weight"]  # asked for in every layer of every forward: no detour
    assert weight is not None
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def packed(norm: Tensor, layers: Sequence[Affine]) -> tuple[Weights, Vectors]:
    """A norm's weights and linear layers as one array of matrices and one of vectors.

    A matrix [out, in], `in` a multiple of 4, is in eight bits, each output over a scale of its own.
    So many outputs as `switch.tile` says lie together, inputs outermost, with outputs of nothing up
    to a multiple of COLUMNS. Of each layer scales and biases follow the norm's weights.
    """
    tiles, vectors = [torch.empty(0, dtype=torch.int8)], [norm.detach()]
    for matrix, bias in layers:
        scale = matrix.detach().abs().amax(1) / 127  # [out]
        whole = (matrix.detach() / scale.clamp_min(1e-30)[:, None]).round().to(torch.int8)
        whole = _padded(whole, -(-len(whole) // COLUMNS) * COLUMNS)
        tiles += [part.t().reshape(-1) for part in whole.split(tile())]
        vectors += [scale, bias.detach()]
    return torch.cat(tiles).numpy(), torch.cat(vectors).float().numpy()


class Part(ABC):
    """Layers packed for a kernel: anew whenever they were trained, moved or given other weights.

    norm    what their input goes through first
    number  a size that the kernel cannot tell from them
    """

    def __init__(self, norm: nn.Module | None, number: int, *linears: nn.Linear) -> None:
        self._norm, self._linears = norm, linears
        self._facts = number, -1.0 if norm is None else _eps(norm)
        self._marked = linears if norm is None else (norm, *linears)
        self._known: list[tuple[int, int]] = []
        self._packed: tuple[Any, ...] = ()
        self.fits = all(
            linear.in_features * linear.out_features <= LARGEST and linear.in_features % 4 == 0
            for linear in linears
        )

    def packed(self) -> tuple[Any, ...]:
        """Weights, vectors, number, eps."""
        marks = [mark(module) for module in self._marked]
        if marks != self._known:
            self._packed = (*packed(self._scale(), self._layers()), *self._facts)
            self._known = marks
        return self._packed

    @abstractmethod
    def _layers(self) -> list[Affine]:
        """What is packed, in order."""

    def _scale(self) -> Tensor:
        """The norm's weights, or as many ones."""
        if self._norm is not None:
            return _weight(self._norm)
        first = self._linears[0].weight
        return first.new_ones(first.shape[1])


class SelfAttention(Part):
    """Norm, Q, K and V, output."""

    def __init__(self, attention: Any, norm: nn.Module | None) -> None:
        three = attention.q_proj, attention.k_proj, attention.v_proj
        super().__init__(norm, attention.heads, *three, attention.o_proj)
        self.fits = self.fits and _plain(attention)

    def _layers(self) -> list[Affine]:
        *three, output = self._linears
        return [_joined(three), _joined([output])]


class CrossAttention(Part):
    """Norm, Q, output."""

    def __init__(self, attention: Any, norm: nn.Module | None) -> None:
        heads = attention.q_proj.out_features // attention.head_dim
        super().__init__(norm, heads, attention.q_proj, attention.o_proj)
        self.fits = self.fits and _plain(attention)

    def _layers(self) -> list[Affine]:
        return [_joined([linear]) for linear in self._linears]


class LayerAttention(SelfAttention):
    """Norm, Q apart from K and V, output: LSA's, of which only the last layer asks."""

    def _layers(self) -> list[Affine]:
        query, keys, values, output = self._linears
        return [_joined([query]), _joined([keys, values]), _joined([output])]


class KeysValues(Part):
    """Norm, K and V; the number is a head's size."""

    def __init__(self, attention: Any, norm: nn.Module | None) -> None:
        super().__init__(norm, attention.head_dim, attention.k_proj, attention.v_proj)
        self.fits = self.fits and _plain(attention)

    def _layers(self) -> list[Affine]:
        return [_joined(self._linears)]


class FeedForward(Part):
    """Norm, gate and up, down; the number is its inner width, padded to a multiple of 4."""

    def __init__(self, mlp: Any, norm: nn.Module | None) -> None:
        self._down, self._inner = mlp.down_proj, -(-mlp.down_proj.in_features // 4) * 4
        super().__init__(norm, self._inner, mlp.gate_proj, mlp.up_proj)
        self._marked = (*self._marked, self._down)

    def _layers(self) -> list[Affine]:
        parts = [[_padded(each, self._inner) for each in _joined([one])] for one in self._linears]
        weight, bias = _joined([self._down])
        both = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        return [both, (_padded(weight, self._inner, 1), bias)]


class Matrix(Part):
    """One linear layer, without a norm."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(None, 0, linear)

    def _scale(self) -> Tensor:
        return self._linears[0].weight.new_empty(0)

    def _layers(self) -> list[Affine]:
        return [_joined(self._linears)]


class Scale(Part):
    """A norm alone."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__(norm, 0)

    def _layers(self) -> list[Affine]:
        return []


def _plain(attention: Any) -> bool:
    return attention.head_dim % 4 == 0 and not getattr(attention, "head_norms", False)


def _padded(tensor: Tensor, size: int, dim: int = 0) -> Tensor:
    """With zeros up to a size."""
    shape = list(tensor.shape)
    shape[dim] = size - shape[dim]
    return torch.cat([tensor, tensor.new_zeros(shape)], dim) if shape[dim] else tensor


def _joined(linears: Sequence[nn.Linear]) -> Affine:
    """Those that read the same input as one, with zeros where there is no bias."""
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases = [
        weight.new_zeros(one.out_features) if one.bias is None else one.bias.detach()
        for one in linears
    ]
    return weight, torch.cat(biases)


def _weight(norm: Any) -> Tensor:
    weight: Tensor = norm.weight
    return weight


def _eps(norm: Any) -> float:
    """Of our norm, or of transformers'."""
    return float(norm.eps if hasattr(norm, "eps") else norm.variance_epsilon)
