"""What a piece of work does, taken down operator by operator: to be checked, and to be replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

# Operators whose result's shape hangs on numbers, or that hand numbers to the host or take them.
WAITS = {
    "_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero",
    "unique_consecutive", "unique_dim", "_unique2",
}  # fmt: skip
READS = ("tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "item")


class NeedsHost(RuntimeError):
    """A piece waits for the device, or would do other things with other numbers."""


class Tape(TorchDispatchMode):
    """While it is on: notes every operator that is called, and what it is given.

    NeedsHost for an operator that a CUDA graph cannot have.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self._given: dict[int, Tensor] = {}  # from outside: a replay uses them where they lie
        self._made: dict[int, tuple[int, Tensor]] = {}  # by id: number, and itself: an id is unique
        self._calls: list[tuple[Callable[..., Any], Any, Any, Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if _waits(func, args):
            raise NeedsHost(f"{func} needs the host")
        held = tree_map_only(Tensor, self._known, (args, kwargs or {}))
        found = func(*args, **(kwargs or {}))
        self._calls.append((func, *held, tree_map_only(Tensor, self._new, found)))
        return found

    def play(self) -> None:
        """Do all of it again, with the numbers that are now where they were."""
        made: dict[int, Tensor] = {}

        def real(slot: _Slot) -> Tensor:
            return made[slot.number] if slot.tensor is None else slot.tensor

        for func, args, kwargs, out in self._calls:
            found = func(*tree_map_only(_Slot, real, args), **tree_map_only(_Slot, real, kwargs))
            _fill(made, out, found)

    def rest(self) -> None:
        """The piece is over: what it made need not live on."""
        self._made.clear()

    def _known(self, tensor: Tensor) -> _Slot:
        if id(tensor) in self._made:
            return _Slot(self._made[id(tensor)][0])
        self._given[id(tensor)] = tensor
        return _Slot(-1, tensor)

    def _new(self, tensor: Tensor) -> _Slot:
        if id(tensor) in self._given:  # written in place
            return _Slot(-1, tensor)
        number, _ = self._made.setdefault(id(tensor), (len(self._made), tensor))
        return _Slot(number)


def _waits(func: Any, args: Any) -> bool:
    name = func._schema.name.partition("::")[2]
    if name == "lift_fresh":  # a constant from the host; a single number may go along with a call
        return bool(args[0].dim())
    if name in ("index", "index_put", "index_put_"):  # by a mask: as many as it says
        return any(each is not None and each.dtype == torch.bool for each in args[1])
    return name in WAITS


class Outside(TorchDispatchMode):
    """While it is on: keeps the tensors that operators are given and that none of them made.

    Weights, buffers, tables: a graph reads and writes them where they lie, and must not lose them.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.given: dict[int, Tensor] = {}
        self._made = WeakIdKeyDictionary()  # holds nothing: memory is used again within a piece

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for each in tree_iter((args, kwargs)):
            if isinstance(each, Tensor) and each not in self._made:
                self.given[id(each)] = each
        found = func(*args, **(kwargs or {}))
        for each in tree_iter(found):
            if isinstance(each, Tensor) and id(each) not in self.given:
                self._made[each] = True
        return found


class _Slot:
    """A tensor of a tape: one from outside, or the one that an earlier operator made."""

    def __init__(self, number: int, tensor: Tensor | None = None) -> None:
        self.number, self.tensor = number, tensor


def _fill(made: dict[int, Tensor], slots: Any, found: Any) -> None:
    if isinstance(slots, _Slot):
        if slots.tensor is None:
            made[slots.number] = found
    elif isinstance(slots, list | tuple):
        for slot, each in zip(slots, found, strict=True):
            _fill(made, slot, each)


@contextmanager
def no_reading() -> Iterator[None]:
    """While it lasts, whoever hands a tensor's numbers to Python fails: on a GPU it would wait."""

    def refuse(name: str) -> Callable[..., Any]:
        def refused(*args: Any, **kwargs: Any) -> Any:
            raise NeedsHost(f"Tensor.{name} needs the host")

        return refused

    with ExitStack() as stack:
        for name in READS:
            stack.enter_context(patch.object(torch.Tensor, name, refuse(name)))
        yield
