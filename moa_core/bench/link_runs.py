"""One run over a link, measured at the client: times, bytes each way, and what the server did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch

from moa_core.bench.link_scene import LOCAL, Cell, Scene
from moa_core.bench.methods import written
from moa_core.decode import Settings, decode
from moa_core.drafters.base import Drafter, ServerHalf
from moa_core.link.remote import Remote
from moa_core.target import Target
from moa_core.trace import Drafted, LinkDown, Prefilled, Trace, Verified
from moa_core.tree import DraftTree
from moa_core.verifier import Beside, Learnt, Toll, Verifier
from moa_core.verify import Choices, Sampling

Record = dict[str, Any]


class Watched:
    """A verifier that notes what no event says: how long the prompt's shares took, and their bytes.

    The drafter needs them before its first draft; they come after the first token.
    """

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self.share_seconds, self.share_bytes = 0.0, 0

    @property
    def toll(self) -> Toll:
        return self._verifier.toll

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        return self._verifier.prefill(ids, capacity, sampling)

    def verify(self, tree: DraftTree, position: int) -> Choices:
        return self._verifier.verify(tree, position)

    def insist(self, tree: DraftTree, position: int) -> Choices:
        return self._verifier.insist(tree, position)

    def keep(self, path: Sequence[int]) -> Learnt:
        learnt = self._verifier.keep(path)
        first = not path and not self.share_seconds
        return Learnt(learnt.ids, lambda: self._shares(learnt.half)) if first else learnt

    def back(self, seconds: float) -> bool:
        return self._verifier.back(seconds)

    def again(self) -> Choices:
        return self._verifier.again()

    def _shares(self, half: Callable[[], ServerHalf]) -> ServerHalf:
        began = perf_counter()
        found = half()
        self.share_seconds, self.share_bytes = perf_counter() - began, self.toll.received
        return found


def run_once(scene: Scene, cell: Cell, ids: Sequence[int], settings: Settings) -> Record:
    """Decode one prompt in this cell. Seconds in the record are wall time at the client.

    connect  until the session is there; not part of the others
    first, second, last  from the prompt's sending to the first token, to the next, to the last ones
    work     the server's seconds; of a stream those of the tokens that were wanted
    downs    how often the link counted as lost
    prefill, cycles  see `timed`; the trace is under "trace", and not for keeping
    """
    if cell.link == LOCAL:
        torch.set_num_threads(scene.server_threads)
        drafter = scene.beside[cell.method]
        return timed(scene.whole, drafter, ids, settings, None)
    torch.set_num_threads(scene.threads)
    before = scene.work()
    record = remotely(scene, cell, scene.drafters[cell.method], ids, settings)
    scene.settle()
    record["work"] = scene.work() - before
    if cell.streams:  # it goes on until it notices that nobody listens
        record["work"] = (record["prefill"]["server_us"] + sum(record["cycles"]["server_us"])) / 1e6
    return record


def remotely(
    scene: Scene, cell: Cell, drafter: Drafter, ids: Sequence[int], settings: Settings,
    client: int = 0, should_stop: Callable[[], bool] = lambda: False,
) -> Record:  # fmt: skip
    """A session of its own over the cell's link. client: whose link, where each has its own."""
    began = perf_counter()
    address = scene.address(cell, client)
    with Remote(address, scene.target, drafter, cell.streams) as remote:
        connected = perf_counter() - began
        record = timed(scene.target, drafter, ids, settings, Watched(remote), should_stop)
    return {**record, "connect": connected}


def timed(
    target: Target, drafter: Drafter, ids: Sequence[int], settings: Settings,
    watched: Watched | None, should_stop: Callable[[], bool] = lambda: False,
) -> Record:  # fmt: skip
    """Decode and note when tokens came.

    prefill  server_us, network_us, up, down: until the first token; share_us, share_down: until
             the prompt's server half was here; observe_us: of the drafter's first look at it
    cycles   a list per field: gained, draft_us, server_us, network_us, other_us, up, down (bytes)
    """
    trace, marks, began = Trace(), list[float](), perf_counter()
    events = decode(target, drafter, ids, settings, should_stop, watched)
    for event in trace.record(events):
        if isinstance(event, Prefilled | Verified):
            marks.append(perf_counter() - began)
    share = watched or Watched(Beside(target, drafter))
    return {
        **written(trace.output_ids, len(ids)),
        "connect": 0.0,
        "first": marks[0],
        "second": marks[min(1, len(marks) - 1)],
        "last": marks[-1],
        "work": 0.0,
        "downs": len(trace.of(LinkDown)),
        "prefill": _prefill(trace, share.share_seconds, share.share_bytes),
        "cycles": _cycles(trace),
        "trace": trace,
    }


def _prefill(trace: Trace, share_seconds: float, share_bytes: int) -> dict[str, int]:
    [event] = trace.of(Prefilled)
    rest = trace.seconds["prefill"] - event.seconds - share_seconds
    return {
        "server_us": _us(event.seconds - event.network_seconds),
        "network_us": _us(event.network_seconds),
        "up": event.sent,
        "down": event.received,
        "share_us": _us(share_seconds),
        "share_down": share_bytes,
        "observe_us": _us(max(rest, 0.0)),
    }


def _cycles(trace: Trace) -> dict[str, list[int]]:
    verified = trace.of(Verified)
    return {
        "gained": trace.accepted_lengths,
        "draft_us": [_us(event.seconds) for event in trace.of(Drafted)],
        "server_us": [_us(event.seconds) for event in verified],
        "network_us": [_us(event.network_seconds) for event in verified],
        "other_us": [_us(event.other_seconds) for event in verified],
        "up": [event.sent for event in verified],
        "down": [event.received for event in verified],
    }


def _us(seconds: float) -> int:
    return round(1e6 * seconds)
