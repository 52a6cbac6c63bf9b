"""On a GPU: the target's forward over a draft tree as CUDA graphs.

Such a forward is short, and much of it is the launch of its kernels one by one. A graph launches
them at once, but only with the same shapes at the same places in memory: so trees are filled up to
a few sizes, attention goes over whole steps of slots, and caches are kept for the next run.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from moa_core.model.cache import KVCache
from moa_core.model.target import Target, is_split

STEP = 1024  # slots
ROWS = 8  # nodes: trees have the root alone, or a multiple of this
KEPT = 16  # graphs of a cache, the latest used


def with_graphs(target: Target) -> Target:
    """The same target, whose trees are verified by CUDA graphs. On other devices, and for a target
    split over several, it comes back as it is."""
    able = target.device.type == "cuda" and not is_split(target.model)
    return GraphTarget(target) if able else target


class GraphTarget(Target):
    """A target that reads prompts as ever, and draft trees in fixed shapes.

    capture  whether as CUDA graphs; tests on a processor run the same shapes without
    """

    def __init__(self, target: Target, capture: bool = True) -> None:
        self.__dict__.update(vars(target))
        if self.own:
            self.own[0].reserve(self.context)  # a larger table would lie elsewhere
        self.capture = capture
        self.pool: list[Place] = []  # its forks' too
        self._lock = Lock()

    def new_cache(self, capacity: int) -> KVCache:
        """A free one from the pool that is large enough, else a new one; smaller ones go first, so
        that there is memory for it."""
        wanted = -(-(capacity + ROWS) // STEP) * STEP
        with self._lock:
            free = [place for place in self.pool if place.owner() is None]
            found = next((place for place in free if place.cache.capacity >= wanted), None)
            if found is None:
                self.pool[:] = [place for place in self.pool if place not in free]
                found = Place(super().new_cache(wanted))
                self.pool.append(found)
            found.owner = weakref.ref(self)
        self._place = found
        found.cache.truncate(0)
        # Masked slots take part in attention, with weight 0: they must hold numbers.
        found.cache.read(0, found.cache.capacity).zero_()
        return found.cache

    def _forward(
        self, ids: Sequence[int], positions: Sequence[int], seen: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if seen is None:
            return super()._forward(ids, positions, seen)
        with torch.cuda.device_of(self._place.cache.read(0, 1)):  # where there are several
            return self._place.forward(self, ids, positions, seen)


def _nobody() -> None:
    return None


@dataclass(eq=False)
class Place:
    """A cache, the graphs that read it, and who has it: the fork of the target that decodes."""

    cache: KVCache
    owner: Any = _nobody

    def __post_init__(self) -> None:
        self._forwards: dict[tuple[int, int, tuple[int, ...]], Forward] = {}

    def forward(
        self, target: GraphTarget, ids: Sequence[int], positions: Sequence[int], seen: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As `Target._forward`, for a tree."""
        rows = 1 if len(ids) == 1 else -(-len(ids) // ROWS) * ROWS
        reach = -(-(self.cache.length + rows) // STEP) * STEP
        key = rows, reach, target.taps
        found = self._forwards.pop(key, None)
        found = found or Forward(target, self.cache, rows, reach, target.capture)
        self._forwards[key] = found
        for old in list(self._forwards)[:-KEPT]:
            del self._forwards[old]
        return found(ids, positions, self.cache.length, seen)


class Forward:
    """One graph: the target over a number of nodes, which attend to the first `reach` slots."""

    def __init__(
        self, target: Target, cache: KVCache, rows: int, reach: int, capture: bool
    ) -> None:
        device = target.device
        self._target, self._rows = target.fork(), rows
        self._names = torch.zeros(3, rows, dtype=torch.long, device=device)
        self._tokens, self._places, slots = self._names
        self._mask = torch.zeros(1, 1, rows, reach, dtype=torch.bool, device=device)
        self._window: Any = Window(cache.read(0, cache.capacity), slots, reach)  # as a cache
        self._capture = capture
        self._graph: Any = None

    def __call__(
        self, ids: Sequence[int], positions: Sequence[int], past: int, seen: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Hidden states [n, E] and logits [n, V], good until the next call."""
        count = len(ids)
        empty = [0] * (self._rows - count)  # rows that nobody asked for
        slots = range(past, past + self._rows)
        self._names.copy_(torch.tensor([[*ids, *empty], [*positions, *empty], [*slots]]))
        self._mask.zero_()
        self._mask[..., :past] = True
        self._mask[0, 0, :count, past : past + count] = seen.to(self._mask.device)
        self._mask[0, 0, count:, past] = True  # or they would attend to nothing
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run()
            if self._capture:
                self._captured()
        return self._hidden[:count], self._logits[:count]

    def _run(self) -> None:
        target = self._target
        hidden = target.embed(self._tokens[None])
        hidden = target.read_layers(hidden, self._places[None], self._mask, self._window)
        self._hidden: Tensor = hidden[0]
        self._logits: Tensor = target.head(self._hidden[:, -target.config.hidden_size :])

    def _captured(self) -> None:
        """Capture what has just run. What cannot be captured has run all the same."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads, a page's, say, may go on to ask for memory meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._run()
            graph.replay()
        except RuntimeError as error:
            self._capture = False
            warnings.warn(
                "This target cannot be captured as a CUDA graph "
                f"({str(error).splitlines()[0]}); decoding goes on without it.",
                RuntimeWarning,
                stacklevel=2,
            )
            self._run()
        else:
            self._graph = graph


@dataclass(frozen=True)
class Window:
    """A cache as layers take it in a graph: they write at slots that a tensor [n] names, and attend
    to those below `reach`.

    whole  [layers, 2, G, C, d]
    """

    whole: Tensor
    slots: Tensor
    reach: int

    @property
    def capacity(self) -> int:
        return self.whole.shape[3]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write [1, G, n, d]; return K and V [1, G, reach, d]."""
        view = self.whole[layer_idx]
        view[0].index_copy_(1, self.slots, key_states[0])
        view[1].index_copy_(1, self.slots, value_states[0])
        return view[0:1, :, : self.reach], view[1:2, :, : self.reach]
