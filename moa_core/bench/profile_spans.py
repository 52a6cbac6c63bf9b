"""Where a cycle's time goes: a tape of who is at work from when on, and what it adds up to.

All time is charged to somebody, so the pieces always sum to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import torch

PYTHON, SYNC = "Python", "sync"


class Piece(NamedTuple):
    """Whom time is charged to.

    phase  draft, verify, accept, cache, or loop: the decode loop itself
    name   SA, head ...; Python: what of a phase no other piece covers
    level  of the draft, 0 for the one below the root; None outside levels
    """

    phase: str
    name: str
    level: int | None = None


LOOP = Piece("loop", PYTHON)
Tape = list[tuple[float, Piece | None]]  # from when on who is at work; None: a cycle ends here


class Clock(Protocol):
    """Marks moments now; says afterwards when they were."""

    def mark(self) -> Any:
        """This moment, to be read once all is over."""

    def seconds(self, marks: Sequence[Any]) -> list[float]:
        """When they were, from the first one on."""


class HostClock:
    """For processors, where a piece is over when its call returns."""

    def mark(self) -> float:
        return perf_counter()

    def seconds(self, marks: Sequence[float]) -> list[float]:
        return [mark - marks[0] for mark in marks]


class DeviceClock:
    """For GPUs: events in the stream of work, so that a piece takes as long as the device is at it,
    or waits for the host to launch it. Nothing is synchronised before the end."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> torch.cuda.Event | None:
        if torch.cuda.is_current_stream_capturing():
            return None  # a graph is recorded, nothing runs
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, marks: Sequence[torch.cuda.Event | None]) -> list[float]:
        torch.cuda.synchronize(self._device)
        first = next((mark for mark in marks if mark is not None), None)
        found, latest = [], 0.0
        for mark in marks:
            if first is not None and mark is not None:
                latest = first.elapsed_time(mark) / 1e3
            found.append(latest)
        return found


def clock_for(device: torch.device) -> Clock:
    """The clock that a device's work is measured by."""
    return DeviceClock(device) if device.type == "cuda" else HostClock()


class Recorder:
    """Keeps the tape while one text is decoded.

    calls   how often each piece was entered
    serial  changes whenever a piece is entered
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: list[tuple[Any, Piece | None]] = []
        self._stack = [(LOOP, False)]  # who is at work, and whether others may interrupt
        self._level: int | None = None
        self.serial = 0
        self.calls: dict[Piece, int] = {}

    @property
    def current(self) -> Piece:
        """Who is at work."""
        return self._stack[-1][0]

    def cycle(self) -> None:
        """A cycle is over."""
        self._marks.append((self._clock.mark(), None))

    def clear(self) -> None:
        """Forget what was recorded so far."""
        self._marks.clear()
        self.calls.clear()

    def begin_phase(self, name: str) -> bool:
        """Until `end`, time goes to a phase, where no piece of it takes it."""
        self._level = None
        return self._push(Piece(name, PYTHON), False)

    def begin_level(self, number: int) -> bool:
        """The same for a level of the draft; what follows in its phase belongs to it, too."""
        self._level = number
        return self._push(Piece(self.current.phase, PYTHON, number), False)

    def begin(self, name: str, closed: bool = True) -> bool:
        """Until `end`, time goes to a piece. False, and there is nothing to end, within a closed
        piece: there `sync` alone counts."""
        if self._stack[-1][1] and name != SYNC:
            return False
        return self._push(Piece(self.current.phase, name, self._level), closed)

    def begin_replay(self, piece: Piece) -> bool:
        """Until `end`, time goes to a piece that is replayed as a whole, of whatever phase."""
        return self._push(piece, True)

    def end(self) -> None:
        """The piece that began last is over."""
        self._stack.pop()
        if len(self._stack) == 1:
            self._level = None
        self._marks.append((self._clock.mark(), self._stack[-1][0]))

    def tape(self) -> Tape:
        """What was recorded, in seconds."""
        times = self._clock.seconds([mark for mark, _ in self._marks])
        return [(at, piece) for at, (_, piece) in zip(times, self._marks, strict=True)]

    def _push(self, piece: Piece, closed: bool) -> bool:
        self._stack.append((piece, closed))
        self.serial += 1
        self.calls[piece] = self.calls.get(piece, 0) + 1
        self._marks.append((self._clock.mark(), piece))
        return True


def split(tape: Tape) -> list[dict[Piece, float]]:
    """Seconds by piece of each whole cycle of a tape, whose first mark begins the first cycle."""
    cycles: list[dict[Piece, float]] = []
    now: dict[Piece, float] = {}
    owner = LOOP
    for (start, piece), (end, after) in pairwise(tape):
        owner = LOOP if piece is None else piece
        now[owner] = now.get(owner, 0.0) + end - start
        if after is None:
            cycles.append(now)
            now = {}
    return cycles


def middle(cycles: Sequence[dict[Piece, float]]) -> dict[Piece, float]:
    """The mean of the middle half of cycles by their length: sums stay sums, and what the machine
    did besides is left out."""
    ranked = sorted(cycles, key=lambda cycle: sum(cycle.values()))
    kept = ranked[len(ranked) // 4 : len(ranked) - len(ranked) // 4]
    pieces = dict.fromkeys(piece for cycle in kept for piece in cycle)
    return {piece: sum(cycle.get(piece, 0.0) for cycle in kept) / len(kept) for piece in pieces}


def middle_seconds(seconds: Sequence[float]) -> float:
    """The same of plain lengths; 0 for none."""
    return sum(middle([{LOOP: each} for each in seconds]).values()) if seconds else 0.0
