"""What each piece of a cycle must read and reckon, counted from the operators it calls.

Floors come from this: bytes of weights, K and V read once, and multiplications and additions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from moa_core.bench.profile_spans import Piece, Recorder
from moa_core.native.steps import ITSELF, MEMORY, STEP

PICKED = ("embedding", "index", "index_select", "gather")  # read only what they return
AS_NUMPY = ("detach", "to", "resolve_conj", "resolve_neg")  # of `numpy()`: each takes nothing
FROM_PYTHON = "lift_fresh"  # numbers that come from Python: no weights


@dataclass(frozen=True)
class Work:
    """What was done.

    operators  calls into torch, or of a compiled kernel, each of which costs time whatever its size
    bytes      read of weights and caches, once for each call of a piece
    ops        of matrix products and attention; a multiplication and an addition are two
    """

    operators: float = 0.0
    bytes: float = 0.0
    ops: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.operators + other.operators, self.bytes + other.bytes, self.ops + other.ops
        )

    def __truediv__(self, count: float) -> Work:
        return Work(self.operators / count, self.bytes / count, self.ops / count)


class Counting(TorchDispatchMode):
    """While it lasts, adds up what each piece does, as the recorder tells it who is at work.

    Begin it when weights and caches are there: what no operator made since is theirs.
    """

    def __init__(self, recorder: Recorder) -> None:
        TorchDispatchMode.__init__(self)
        self._recorder = recorder
        self._serial = -1
        self._seen: set[tuple[Any, ...]] = set()  # by this call of a piece
        self._made: set[int] = set()  # storages of results
        self._held: dict[int, int] = {}
        self.work: dict[Piece, Work] = defaultdict(Work)

    @property
    def held(self) -> int:
        """Bytes of all weights and caches that were read, each once."""
        return sum(self._held.values())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        given, returned = tensors([*args, *(kwargs or {}).values()]), tensors([result])
        if self._recorder.serial != self._serial:
            self._serial = self._recorder.serial
            self._seen.clear()
        # What comes back in the same storage was not read, only looked at anew or written to.
        before, after = {*map(_storage, given)}, {*map(_storage, returned)}
        read = [each for each in given if _storage(each) not in after]
        bytes_read = sum(self._first_read(each, name, returned) for each in read)
        calls = 0 if name in AS_NUMPY and not after - before else 1
        self.work[self._recorder.current] += Work(calls, bytes_read, operations(name, given))
        self._made |= after if name == FROM_PYTHON else after - before
        return result

    def kernels(self, module: ModuleType) -> Any:
        """The compiled kernels, each call of which is counted."""
        return _Counted(module, self)

    def kernel(self, name: str, given: Sequence[Any], result: Any) -> None:
        """A compiled kernel was called."""
        self.work[self._recorder.current] += kernel_work(name, given)
        for step in given[0] if given[0].dtype == STEP else ():
            self._held[int(step["weights"])] = int(step["bytes"])
        for each in result if isinstance(result, tuple) else (result,):
            self._made.add(each.ctypes.data)

    def _first_read(self, tensor: Tensor, name: str, returned: Sequence[Tensor]) -> int:
        """Bytes of a weight or cache that this call of a piece had not read yet."""
        if _storage(tensor) in self._made:
            return 0
        key = (_address(tensor), tensor.numel())
        if key in self._seen:
            return 0
        self._seen.add(key)
        of = returned if name in PICKED else [tensor]
        size = sum(distinct(each) * each.itemsize for each in of)
        self._held[_address(tensor)] = max(size, self._held.get(_address(tensor), 0))
        return size


class _Counted:
    """Compiled kernels whose calls somebody counts."""

    def __init__(self, module: ModuleType, counting: Counting) -> None:
        self._module, self._counting = module, counting

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self._module, name)

        def call(*args: Any) -> Any:
            result = kernel(*args)
            self._counting.kernel(name, args, result)
            return result

        return call


def kernel_work(name: str, given: Sequence[Any]) -> Work:
    """What a kernel of `native.kernels` reads and reckons, by its arguments."""
    if name == "best":
        return Work(1)
    steps, first, start, stop = given[:4]
    matrices = float(steps["bytes"].sum())
    if name == "remember":  # K and V of all layers, Q and the output of one
        layers, rows, lsa = len(first), stop - start, steps[0]
        width = 2 * first.shape[2] * first.shape[4]
        both = int(lsa["bytes"]) - 2 * width * int(lsa["number"] * lsa["size"])
        return Work(1, matrices, 2.0 * rows * (matrices + (layers - 1) * both))
    rows, memory = len(first), given[4]
    work = Work(1, matrices, 2.0 * rows * matrices)
    for step in steps:
        if step["kind"] in (ITSELF, MEMORY):
            slots = start + rows if step["kind"] == ITSELF else memory
            groups, size, heads = int(step["groups"]), int(step["size"]), int(step["number"])
            work += Work(0, 8.0 * groups * size * slots, 4.0 * rows * heads * size * slots)
    return work


def tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among arguments or results, those in lists and tuples too."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors(value)
    return found


def distinct(tensor: Tensor) -> int:
    """Numbers that lie behind a tensor: repeated ones, as `expand` makes them, count once."""
    if _packed(tensor):
        return tensor.numel()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in pairs if stride)


def operations(name: str, given: Sequence[Tensor]) -> float:
    """Multiplications and additions of an operator, by its name and tensors; 0 for small ones."""
    if name == "linear" and len(given) > 1:
        return 2.0 * given[0].numel() * given[1].shape[0]
    if name == "_linear_pointwise" and len(given) > 1:  # packed; with a second tensor to add, maybe
        weight = given[2] if len(given) > 2 and _packed(given[2]) else given[1]
        return 2.0 * given[0].numel() * weight.shape[0]
    if name in ("mm", "bmm", "matmul") and len(given) > 1:
        return 2.0 * given[0].numel() * given[1].shape[-1]
    if name == "addmm" and len(given) > 2:
        return 2.0 * given[1].numel() * given[2].shape[-1]
    if name.startswith(("scaled_dot_product", "_scaled_dot_product")) and len(given) > 2:
        queries, keys, values = given[:3]  # [B, H, n, d], [B, G, m, d], [B, G, m, d]
        return 2.0 * queries.numel() * keys.shape[-2] * (1 + values.shape[-1] / keys.shape[-1])
    return 0.0


def _packed(tensor: Tensor) -> bool:
    """Whether it is packed for decoding: then it has no storage to be asked about."""
    return tensor.layout is cast(Any, torch)._mkldnn


def _storage(tensor: Tensor) -> int:
    return id(tensor) if _packed(tensor) else tensor.untyped_storage().data_ptr()


def _address(tensor: Tensor) -> int:
    return id(tensor) if _packed(tensor) else tensor.data_ptr()
