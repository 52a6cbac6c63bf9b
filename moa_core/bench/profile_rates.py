"""What this machine can do at best: bytes copied, operations of a matrix product, smallest call.

The floors of a profile are reckoned from these, measured in the same command, on the same device,
in the same number format and with the same threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch.nn import functional as F

from moa_core.bench.profile_work import Work

GOES, FEWEST, SECONDS = 20, 4, 0.5  # goes of a measurement, and when fewer will do
LARGE = {"cuda": 2**31, "cpu": 2**28}  # bytes: beyond all caches
SIDES = {"cuda": 8192, "cpu": 1024}  # of the square matrices that are multiplied


@dataclass(frozen=True)
class Rates:
    """A device at its best.

    bandwidth   bytes a second, read and written ones both counted, of a copy between two buffers
                that together are as large as what a cycle reads again and again: if caches hold
                it, theirs
    memory      the same of buffers beyond all caches
    ops         operations a second of a product of two large matrices
    operator    seconds that the smallest operator takes: what each call costs at least
    set_bytes   size of the two buffers
    """

    bandwidth: float
    memory: float
    ops: float
    operator: float
    set_bytes: int

    def floor(self, work: Work) -> float:
        """Seconds that this work takes at least: its reads or its operations, whichever longer."""
        return max(work.bytes / self.bandwidth, work.ops / self.ops)


def measure_rates(device: torch.device, dtype: torch.dtype, set_bytes: int) -> Rates:
    """Measure them, each at its best of several goes.

    set_bytes  weights and caches that a cycle reads
    """
    large = LARGE.get(device.type, LARGE["cpu"])
    memory = copied(device, large)
    near = memory if set_bytes >= large else max(memory, copied(device, max(set_bytes, 2**16)))
    return Rates(near, memory, multiplied(device, dtype), smallest(device), set_bytes)


@torch.inference_mode()
def copied(device: torch.device, size: int) -> float:
    """Bytes a second, both ways, of copies between two halves of so many bytes."""
    source = torch.ones(size // 2, dtype=torch.uint8, device=device)
    goal = torch.empty_like(source)
    return 2 * source.numel() / best(lambda: goal.copy_(source), device)


@torch.inference_mode()
def multiplied(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a product of two square matrices."""
    side = SIDES.get(device.type, SIDES["cpu"])
    one = torch.randn(side, side, device=device).to(dtype)
    return 2 * side**3 / best(lambda: F.linear(one, one), device)


@torch.inference_mode()
def smallest(device: torch.device) -> float:
    """Seconds of an addition to one number, of many in a row."""
    number = torch.zeros(1, device=device)

    def many() -> None:
        for _ in range(1000):
            number.add_(1)

    return best(many, device) / 1000


def best(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of the quickest of several goes, after one that does not count."""
    found: list[float] = []
    while len(found) <= FEWEST or (len(found) <= GOES and sum(found) < SECONDS):
        _wait(device)
        began = perf_counter()
        work()
        _wait(device)
        found.append(perf_counter() - began)
    return max(min(found[1:]), 1e-9)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
