"""Who runs a piece of a cycle: as a CUDA graph; or as it is; or, without a GPU, from a tape."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

import torch
from torch import Tensor

from moa_core.static.tape import Outside, Tape, no_reading

Piece = Callable[[], None]


class NotCaptured(RuntimeError):
    """A piece ran as it is, and cannot be replayed."""


class Player(Protocol):
    """Runs pieces, each known by a key. Two pieces of one key do the same to the same buffers."""

    def play(self, key: Hashable, piece: Piece) -> None:
        """Run a piece. NotCaptured once it has run, if it never will be replayed."""


class Graphs:
    """CUDA graphs: the first time a piece runs as it is, and is captured; then it is replayed.

    All graphs share one pool of memory. That is safe since they are replayed one after the other,
    and since what one leaves for another lies in buffers from outside.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)
        # Beside each what it must not lose: tables and joined weights are made anew at times, and a
        # graph reads them where they were.
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}

    def play(self, key: Hashable, piece: Piece) -> None:
        if key in self._graphs:
            self._graphs[key][0].replay()
            return
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            piece()
        current.wait_stream(self._stream)
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
            raise NotCaptured(str(error).splitlines()[0]) from error
        self._graphs[key] = graph, list(outside.given.values())


class Tapes:
    """Without a GPU: a piece runs as it is, is taken down the second time, and then replayed.

    A replay calls the operators that were called, on the buffers that were used, and no Python of
    the piece: it is right only where a CUDA graph would be.
    """

    def __init__(self, device: torch.device) -> None:
        self.tapes: dict[Hashable, Tape | None] = {}
        self.replays = 0

    def play(self, key: Hashable, piece: Piece) -> None:
        tape = self.tapes.get(key)
        if tape is not None:
            self.replays += 1
            tape.play()
        elif key not in self.tapes:  # what is made once, tables, say, is made now
            piece()
            self.tapes[key] = None
        else:
            tape = self.tapes[key] = Tape()
            with no_reading(), tape:
                piece()
            tape.rest()


class Plain:
    """Every piece as it is: static shapes alone."""

    def __init__(self, device: torch.device) -> None:
        pass

    def play(self, key: Hashable, piece: Piece) -> None:
        piece()


# By kind of device; where there is none, decoding goes the eager way. Tests put in others.
PLAYERS: dict[str, Callable[[torch.device], Player]] = {"cuda": Graphs}
