"""Pieces of work captured as CUDA graphs, and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

Piece = Callable[[], None]


class Plain:
    """Runs every piece as it is."""

    def __init__(self, device: torch.device) -> None:
        pass

    def play(self, key: Hashable, piece: Piece) -> None:
        """Run a piece. Two pieces of one key do the same to the same buffers."""
        piece()


class Graphs(Plain):
    """The first time a piece runs as it is, and is captured; then it is replayed.

    All graphs share one pool of memory. That is safe since they are replayed one after the other,
    and since what one leaves for another lies in buffers from outside.

    failed  why pieces are no longer captured but run as they are
    """

    def __init__(self, device: torch.device) -> None:
        self.failed = ""
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)
        # Beside each what it must not lose: tables and joined weights are made anew at times, and a
        # graph reads them where they were.
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}

    def play(self, key: Hashable, piece: Piece) -> None:
        if self.failed:
            piece()
        elif key in self._graphs:
            self._graphs[key][0].replay()
        else:
            current = torch.cuda.current_stream(self._device)
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                piece()
            current.wait_stream(self._stream)
            self.capture(key, piece)

    def capture(self, key: Hashable, piece: Piece) -> None:
        """Capture a piece that has run. A piece that cannot be captured has run all the same, and
        so does all after it: a warning says so."""
        graph, outside = torch.cuda.CUDAGraph(), Outside()
        try:
            # Other threads, a page's, say, may go on to ask for memory meanwhile.
            with (
                torch.cuda.graph(
                    graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
                ),
                outside,
            ):
                piece()
        except RuntimeError as error:
            self.failed = str(error).splitlines()[0]
            warnings.warn(
                "This target cannot be captured as CUDA graphs "
                f"({self.failed}); decoding goes on without them.",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        self._graphs[key] = graph, list(outside.given.values())


class Outside(TorchDispatchMode):
    """While it is on: keeps the tensors that operators are given and that none of them made."""

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
