"""Many clients at once on one server, each with a link of its own.

A client is a device of its own, and there are not sixteen here. So clients are threads of one
process that draft nothing: each proposes the trees that it proposed when it was alone, after
waiting as long as drafting took then. Sessions, messages, links and all of the server's work are
real, and so is the text, which must come out the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any

from moa_core.bench.link_runs import Record, remotely
from moa_core.bench.link_scene import DIRECT, Cell, Scene
from moa_core.decode import Settings
from moa_core.drafters.base import Drafter, HalfShapes, ServerHalf
from moa_core.target import Observation, Target
from moa_core.trace import Drafted, Trace
from moa_core.tree import DraftTree, TreeSettings

ROUNDS = 2  # prompts of each client that count; it goes on until all have done theirs


@dataclass(frozen=True)
class Part:
    """What a client's drafter did for one prompt: its first look at it, and each draft."""

    observe: float  # seconds
    trees: list[DraftTree]
    seconds: list[float]

    @classmethod
    def of(cls, record: Record) -> Part:
        """From a run alone."""
        trace: Trace = record["trace"]
        drafted = trace.of(Drafted)
        return cls(
            record["prefill"]["observe_us"] / 1e6,
            [event.tree for event in drafted],
            [event.seconds for event in drafted],
        )


class Player(Drafter):
    """A drafter as it is seen from elsewhere: its trees, when they came."""

    def __init__(self, drafter: Drafter, part: Part) -> None:
        self.name = drafter.name
        if hasattr(drafter, "net"):  # both ends compare its weights
            self.net = drafter.net
        self._drafter, self._part = drafter, part

    def open(self, target: Target, capacity: int) -> None:
        self._cycle, self._since = -1, 0.0

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        self._since = perf_counter()
        self._cycle += 1
        if self._cycle == 0:
            _until(self._since + self._part.observe)

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        began = perf_counter() if self._cycle == 0 else self._since
        if self._cycle < len(self._part.trees):
            _until(began + self._part.seconds[self._cycle])
            if self._part.trees[self._cycle].tokens[0] == token:
                return self._part.trees[self._cycle]
        return DraftTree.only_root(token)  # another text than alone: it will be told from it


class HalfPlayer(Player):
    """The same for a method that has a server half."""

    def server_half(self, observation: Observation) -> ServerHalf:
        raise NotImplementedError("the server's own drafter has it")

    def half_shapes(self, target: Target, count: int) -> HalfShapes:
        return self._drafter.half_shapes(target, count)


def player(drafter: Drafter, part: Part) -> Player:
    """One that asks the server for what its drafter would."""
    needs = type(drafter).server_half is not Drafter.server_half
    return (HalfPlayer if needs else Player)(drafter, part)


def rehearse(
    scene: Scene, cell: Cell, ids: Sequence[Sequence[int]], settings: Callable[[int], Settings]
) -> list[Part]:
    """What the cell's drafter does for each prompt when it is alone on the server."""
    alone = Cell(cell.method, DIRECT, cell.numbers)
    drafter = scene.drafters[cell.method]
    return [
        Part.of(remotely(scene, alone, drafter, one, settings(place)))
        for place, one in enumerate(ids)
    ]


def crowd(
    scene: Scene, cell: Cell, ids: Sequence[Sequence[int]], parts: Sequence[Part],
    settings: Callable[[int], Settings], texts: Sequence[str],
) -> Record:  # fmt: skip
    """All clients of a cell at once, from one start, each on other prompts.

    texts    hashes of the prompts' right texts
    runs     those that count, as link_runs.remotely gives them, with method and whether it differs
    work     the server's seconds in all, and tokens: of all runs, those that do not count too
    """
    start, done = threading.Barrier(cell.clients), set[int]()

    def everyone() -> bool:
        return len(done) == cell.clients

    scene.settle()
    before = scene.work()

    def client(number: int) -> list[Record]:
        start.wait()
        runs: list[Record] = []
        while not everyone():
            place = (number + len(runs) * cell.clients) % len(ids)
            drafter = player(scene.drafters[cell.method], parts[place])
            stop = everyone if len(runs) >= ROUNDS else lambda: False
            record = remotely(scene, cell, drafter, ids[place], settings(place), number, stop)
            differs = record["output"] != texts[place]
            runs.append({**_short(record), "method": cell.method, "differs": differs})
            if len(runs) == ROUNDS:
                done.add(number)
        return runs

    with ThreadPoolExecutor(cell.clients) as pool:
        found = list(pool.map(client, range(cell.clients)))
    scene.settle()
    return _together(found, scene.work() - before)


def _short(record: Record) -> Record:
    return {name: record[name] for name in ("new_tokens", "first", "second", "last", "downs")}


def _together(found: Sequence[Sequence[Record]], work: float) -> dict[str, Any]:
    every = [record for runs in found for record in runs]
    return {
        "runs": [record for runs in found for record in runs[:ROUNDS]],
        "work": work,
        "tokens": sum(record["new_tokens"] for record in every),
    }


def _until(time: float) -> None:
    sleep(max(0.0, time - perf_counter()))
