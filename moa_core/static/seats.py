"""Where runs take place: a target's cache and what was captured over it, kept for the next run."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from torch import nn

from moa_core.drafters.base import Drafter
from moa_core.model.target import Target
from moa_core.static.cycle import Cycle
from moa_core.static.players import PLAYERS
from moa_core.static.slots import Slots, bucket

METHODS_KEPT = 8  # of a target: each has small caches and some graphs
_lock = Lock()
Mark = list[tuple[int, int]]


@dataclass(eq=False)
class Seat:
    """A cache with the cycles of every method that ran on it, the latest last. One run at a time.

    marks  of weights as they were after the last run, by cycle: graphs read them where they lay
    """

    slots: Slots
    mark: Mark = field(default_factory=list)
    cycles: dict[Hashable, Cycle] = field(default_factory=dict)
    marks: dict[Hashable, Mark] = field(default_factory=dict)
    busy: bool = True

    @property
    def capacity(self) -> int:
        """Slots that there are."""
        return self.slots.cache.capacity


@contextmanager
def taken(target: Target, drafter: Drafter, rows: int, capacity: int) -> Iterator[Cycle]:
    """A method's cycle on a free seat with room enough, made where there is none."""
    net: nn.Module | None = getattr(drafter, "net", None)
    key = (type(drafter), id(net), drafter.tli, getattr(drafter, "static", False), rows)
    seat = _seat(target, capacity)
    try:
        kept = seat.cycles.pop(key, None)
        if kept is None or (net is not None and seat.marks[key] != mark(net)):
            player = PLAYERS[target.device.type](target.device)
            kept = Cycle(target, drafter, seat.slots, rows, player)
        seat.cycles[key] = kept
        for old in list(seat.cycles)[:-METHODS_KEPT]:
            del seat.cycles[old], seat.marks[old]
        yield kept
        seat.mark = mark(target.model)
        seat.marks[key] = mark(net) if net is not None else []
    except BaseException:  # who knows what state it is in
        _leave(target, seat, keep=False)
        raise
    _leave(target, seat, keep=True)


def mark(module: nn.Module) -> Mark:
    """Where a module's weights lie, and how often they were written."""
    return [
        (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
        for weight in module.parameters()
    ]


def _seat(target: Target, capacity: int) -> Seat:
    """A free seat; too small ones go first, so that there is memory for a new one."""
    with _lock:
        now = mark(target.model)
        free = (one for one in target.seats if not one.busy)
        found = next((one for one in free if one.capacity >= capacity and one.mark == now), None)
        if found is None:
            target.seats[:] = [one for one in target.seats if one.busy]
            found = Seat(Slots(target.tail_cache(len(target.layers), bucket(capacity))))
            target.seats.append(found)
        found.busy = True
        return found


def _leave(target: Target, seat: Seat, keep: bool) -> None:
    """The next run may have it; of several free ones the last stays."""
    with _lock:
        seat.busy = False
        target.seats[:] = [one for one in target.seats if one.busy or (keep and one is seat)]
