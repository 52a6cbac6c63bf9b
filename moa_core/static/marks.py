"""When a cycle's phases began, as a device's own clock or the host's tells it afterwards."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter
from typing import Any

import torch


class Marks:
    """Moments of one cycle; no mark waits for the device."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._marks: list[Any] = []

    def mark(self) -> None:
        """This moment."""
        if self._on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(perf_counter())

    def seconds(self) -> list[float]:
        """Between each and the next, once the host has waited for the device."""
        if self._on_gpu:
            return [start.elapsed_time(end) / 1e3 for start, end in pairwise(self._marks)]
        return [end - start for start, end in pairwise(self._marks)]
