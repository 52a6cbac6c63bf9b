"""A run in static shapes, as the decode loop takes it: drafter and verifier in one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import torch

from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verifier import Answer, Asked, Learned, Verifier
from moa_core.decoding.verify import Sampling, choose
from moa_core.drafters.base import Drafter, ServerHalf
from moa_core.model.target import Observation, Target, is_split
from moa_core.static.buffers import Slots, bucket
from moa_core.static.cycle import Cycle, weights_of
from moa_core.static.levels import METHODS
from moa_core.static.replay import Graphs, Plain

METHODS_KEPT = 8  # of a cache: each has small caches of its own and some graphs


def with_graphs(target: Target) -> Target:
    """The same target, whose runs are replayed as CUDA graphs. On other devices, and for a target
    split over several, it comes back as it is."""
    able = target.device.type == "cuda" and not is_split(target.model)
    return GraphTarget(target) if able else target


class GraphTarget(Target):
    """A target that runs the methods it has static shapes for by a player; others as ever."""

    def __init__(self, target: Target, player: type[Plain] = Graphs) -> None:
        self.__dict__.update(vars(target))
        self.player = player
        self.pool: list[Place] = []  # the forks' too
        self.lock = Lock()

    def pair(self, drafter: Drafter, shape: TreeSettings) -> tuple[Drafter, Verifier]:
        if type(drafter) not in METHODS:
            return super().pair(drafter, shape)
        run = GraphRun(drafter, self, shape)
        return run, run

    @contextmanager
    def taken(self, drafter: Drafter, rows: int, capacity: int) -> Iterator[Cycle]:
        """A method's cycle over a free cache with room enough, made where there is none."""
        net: Any = getattr(drafter, "net", None)
        key = (type(drafter), id(net), drafter.tli, drafter.static, rows)
        place = self._place(capacity)
        try:
            kept = place.cycles.pop(key, None)
            if kept is None or place.weights[key] != weights_of(net):
                plain = Target.fork(self)
                plain.__dict__.pop("pool")  # who keeps this cycle: nothing refers to itself
                kept = Cycle(plain, drafter, place.slots, rows, self.player(self.device))
            place.cycles[key] = kept
            for old in list(place.cycles)[:-METHODS_KEPT]:
                del place.cycles[old], place.weights[old]
            yield kept
            place.read, place.weights[key] = weights_of(self.model), weights_of(net)
        except BaseException:  # who knows what state it is in
            self._leave(place, keep=False)
            raise
        self._leave(place, keep=True)

    def _place(self, capacity: int) -> Place:
        """A free cache; too small ones go first, so that there is memory for a new one."""
        with self.lock:
            now = weights_of(self.model)
            for place in self.pool:
                if not place.busy and place.capacity >= capacity and place.read == now:
                    place.busy = True
                    return place
            self.pool[:] = [one for one in self.pool if one.busy]
            slots = Slots(self.tail_cache(len(self.layers), bucket(capacity)))
            self.pool.append(Place(slots))
            return self.pool[-1]

    def _leave(self, place: Place, keep: bool) -> None:
        """The next run may have it; of several free ones the last stays."""
        with self.lock:
            place.busy = False
            self.pool[:] = [one for one in self.pool if one.busy or (keep and one is place)]


@dataclass(eq=False)
class Place:
    """A cache with the cycles of every method that ran on it, the latest last. One run at a time.

    read     the target's weights as they were after the last run
    weights  the drafters', by cycle
    """

    slots: Slots
    read: list[tuple[int, int]] = field(default_factory=list)
    cycles: dict[Hashable, Cycle] = field(default_factory=dict)
    weights: dict[Hashable, list[tuple[int, int]]] = field(default_factory=dict)
    busy: bool = True

    @property
    def capacity(self) -> int:
        return self.slots.cache.capacity


class GraphRun(Drafter):
    """Drafts and verifies on the device, which alone keeps what the target taught."""

    def __init__(self, drafter: Drafter, target: GraphTarget, shape: TreeSettings) -> None:
        self._drafter, self._target, self._rows = drafter, target, shape.depth + 1
        self.name, self.tli, self.tree = drafter.name, drafter.tli, drafter.tree
        self._known = 0  # verified tokens
        self._stack = ExitStack()

    def open(self, target: Target, capacity: int) -> None:
        taken = self._target.taken(self._drafter, self._rows, capacity)
        self._cycle = self._stack.enter_context(taken)

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Asked[Answer]:
        """As `Target.prefill`, into the memory that graphs know."""
        yield from ()
        self._sampling, target = sampling, self._target
        cache = self._cycle.text.slots.cache
        cache.truncate(0)
        hidden = target.embed(torch.tensor([ids], device=target.device))
        places = torch.arange(len(ids), device=target.device)[None]
        hidden = target.read_layers(hidden, places, None, cache)[0]
        cache.advance(len(ids))
        root = DraftTree.only_root(ids[-1])
        choices = choose(target.head(hidden[-1:]), root, len(ids) - 1, sampling)
        self._prompt = Observation(tuple(ids), 0, hidden, cache)
        self._root = choices.tokens[0]
        return Answer(root, choices)

    def learned(self) -> Asked[Learned]:
        yield from ()
        return Learned((), {})

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        """Of the prompt. What later cycles teach is taken in with the next one's first piece."""
        if not self._known:
            if self._cycle.levels:
                self._cycle.levels.prefill(self._prompt)
            self._known = len(self._prompt.ids)
            self._cycle.text.begin(self._prompt.ids, self._prompt.hidden[-1:], self._root)

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        with torch.cuda.device_of(self._cycle.text.known):  # where there are several
            return self._cycle.draft(token, settings, self._known)

    def verify(self, drafted: Drafted) -> Asked[Answer]:
        yield from ()
        with torch.cuda.device_of(self._cycle.text.known):
            return Answer(drafted.tree, self._cycle.verify(self._sampling, self._known))

    def keep(self, path: Sequence[int]) -> None:
        """The device has kept it already."""
        self._known += 1 + len(path)

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        self._drafter.learn(drafted, verified)

    def close(self) -> None:
        self._stack.close()
