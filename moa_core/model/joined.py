"""Linear layers joined and packed for decoding: fewer operations, and each matrix read once.

With gradients nothing changes. Without, layers that read the same input become one product, and
what a block adds to its input is added within its last product. On a processor, small matrices are
also packed as oneDNN wants them, which it otherwise does at each call, and the weights of a norm
before them are multiplied in. A token's numbers are then the same however many others are read with
it: to the bit, on the processors tried.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moa_core.model.norms import RMSNorm
from moa_core.native.packing import mark

LARGEST = 1 << 22  # numbers of a matrix that is packed: it is then held twice


class Part(NamedTuple):
    """The layers from one on: what is done to their input, and the product with it."""

    before: Callable[[Tensor], Tensor] | None
    weight: Tensor
    bias: Tensor | None
    packed: bool


class Joined:
    """Linear layers that read the same input, as one.

    Their own weights become views of the joined ones, so that nothing but what is packed is held
    twice, and whoever trains, saves or loads them sees no difference.

    norm  what their input goes through first
    """

    def __init__(self, *linears: nn.Linear, norm: RMSNorm | None = None) -> None:
        self._linears, self._norm = linears, norm
        self._marked = linears if norm is None else (*linears, norm)
        self._known: list[tuple[int, int]] = []  # address and version of each weight, when joined
        self._weight: Tensor | None = None
        self._bias: Tensor | None = None
        self._parts: dict[int, Part] = {}

    def __call__(self, x: Tensor, first: int = 0) -> Tensor:
        """[.., in] -> [.., out], what all say side by side, or all from one of them on."""
        if torch.is_grad_enabled():
            x = x if self._norm is None else self._norm.forward(x)
            said: list[Tensor] = [linear(x) for linear in self._linears[first:]]
            return said[0] if len(said) == 1 else torch.cat(said, -1)
        before, weight, bias, packed = self._part(first)
        if before is not None:
            x = before(x)
        if packed:
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
            return out
        return F.linear(x, weight, bias)

    def added(self, base: Tensor, x: Tensor) -> Tensor:
        """base [.., out] + what they make of x [.., in]"""
        if torch.is_grad_enabled():
            return base + self(x)
        before, weight, bias, packed = self._part(0)
        if before is not None:
            x = before(x)
        if packed:
            out: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, base, weight, bias, "add")
            return out
        if bias is not None:
            base = base + bias
        flat = torch.addmm(base.flatten(0, -2), x.flatten(0, -2), weight.t())
        return flat.view(base.shape)

    def __deepcopy__(self, memo: dict[int, Any]) -> Joined:
        return Joined(*copy.deepcopy(self._linears, memo), norm=copy.deepcopy(self._norm, memo))

    def _part(self, first: int) -> Part:
        if [mark(module) for module in self._marked] != self._known:
            self._join()
        found = self._parts.get(first)
        if found is None:
            found = self._parts[first] = self._part_from(first)
        return found

    def _part_from(self, first: int) -> Part:
        assert self._weight is not None
        skipped = sum(linear.out_features for linear in self._linears[:first])
        weight, norm = self._weight[skipped:], self._norm
        bias = None if self._bias is None else self._bias[skipped:]
        folds = norm is not None and weight.dtype == torch.float32 and _worth_packing(weight)
        folded = weight * (norm.weight.detach() * norm.scale) if norm and folds else weight
        if (packed := _packed(folded)) is None:
            return Part(None if norm is None else norm.forward, weight, bias, False)
        before = None if norm is None else norm.direction if folds else norm.forward
        return Part(before, packed, bias, True)

    def _join(self) -> None:
        """Join them, at first and whenever they were trained, moved or given other weights."""
        self._weight = _whole([linear.weight for linear in self._linears])
        biases = [linear.bias for linear in self._linears if linear.bias is not None]
        if biases and len(biases) < len(self._linears):
            raise ValueError("of joined layers either all have a bias, or none")
        self._bias = _whole(biases) if biases else None
        self._parts = {}
        self._known = [mark(module) for module in self._marked]


class Linear(nn.Linear):
    """A linear layer that is packed for decoding."""

    def __init__(self, inner: int, outer: int, bias: bool = True) -> None:
        super().__init__(inner, outer, bias=bias)
        self._alone = Joined(self)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return super().forward(x)
        return self._alone(x)


class Packed(nn.Module):
    """Another's linear layer, packed for decoding."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self._alone = Joined(linear)

    @property
    def weight(self) -> Tensor:
        return self.linear.weight

    @property
    def bias(self) -> Tensor | None:
        return self.linear.bias

    @property
    def out_features(self) -> int:
        return self.linear.out_features

    def forward(self, x: Tensor) -> Tensor:
        return self._alone(x)


def _whole(parts: Sequence[Tensor]) -> Tensor:
    """One below the other, in memory of their own, of which the parts become views."""
    if len(parts) == 1:
        return parts[0].detach()
    with torch.inference_mode(parts[0].is_inference()), torch.no_grad():  # they may be trained
        whole = torch.cat([part.detach() for part in parts])
        for part, view in zip(parts, whole.split([len(part) for part in parts]), strict=True):
            part.data = view
    return whole


def _worth_packing(weight: Tensor) -> bool:
    small = weight.numel() <= LARGEST and weight.dtype in (torch.float32, torch.bfloat16)
    return weight.device.type == "cpu" and small and torch.backends.mkldnn.is_available()


def _packed(weight: Tensor) -> Tensor | None:
    """A matrix as oneDNN wants it; None where it would not be used, or this torch cannot."""
    if not _worth_packing(weight):
        return None
    try:  # no public function does this; torch.compile's own code calls these two
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
        torch.ops.mkldnn._linear_pointwise(weight[:1], packed, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return packed
