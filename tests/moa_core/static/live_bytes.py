"""Counts the bytes of tensors while code runs: what a device would have to hold."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

OPAQUE = -1  # packed for a processor: its size is not told


class LiveBytes(TorchDispatchMode):
    """Of tensors made while it is on, each storage once and for as long as it lives.

    peak     most at once
    largest  most of one tensor
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = self.largest = 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {_address(each) for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)}
        found = func(*args, **(kwargs or {}))
        for each in tree_iter(found):
            if isinstance(each, Tensor) and _address(each) not in given | {OPAQUE}:
                self._note(each)
        return found

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._known:
            return
        self._known.add(storage)
        size = storage.nbytes()
        self.now += size
        self.peak, self.largest = max(self.peak, self.now), max(self.largest, size)
        weakref.finalize(storage, self._gone, size)

    def _gone(self, size: int) -> None:
        self.now -= size


def _address(tensor: Tensor) -> int:
    return OPAQUE if tensor.layout is torch._mkldnn else tensor.untyped_storage()._cdata
