"""Joules, where the machine lets them be read: NVML for an NVIDIA GPU, RAPL for Intel and AMD."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

POWERCAP = Path("/sys/class/powercap")
UNREAD = "neither NVML nor RAPL can be read on this machine"


class Meter:
    """Energy used since `start`. joules() is None where nothing can be read.

    source  what is measured, in words
    """

    def __init__(self, device: torch.device) -> None:
        self.source = UNREAD
        self._read: Callable[[], list[float]] | None = None
        self._ranges = [0.0]  # joules at which each counter begins anew
        self._from: list[float] = []
        if device.type == "cuda":
            self._use_nvml(device)
        else:
            self._use_rapl()

    def start(self) -> None:
        """Count from now on."""
        if self._read:
            self._from = self._read()

    def joules(self) -> float | None:
        """Joules since `start`."""
        if self._read is None:
            return None
        used = [now - before for now, before in zip(self._read(), self._from, strict=True)]
        wrapped = zip(used, self._ranges, strict=True)
        return sum(part + whole if part < 0 else part for part, whole in wrapped)

    def _use_nvml(self, device: torch.device) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(device.index or 0)
            pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        except Exception:  # no such package, or a driver that refuses: then it stays unmeasured
            return
        self._read = lambda: [pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3]
        self.source = "energy of the GPU, by NVML"

    def _use_rapl(self) -> None:
        zones = [path for path in sorted(POWERCAP.glob("*-rapl:*")) if path.name.count(":") == 1]
        try:
            ranges = [int((zone / "max_energy_range_uj").read_text()) for zone in zones]
            for zone in zones:
                (zone / "energy_uj").read_text()
        except (OSError, ValueError):  # most systems let only root read it
            return
        if zones:
            self._read = lambda: [int((zone / "energy_uj").read_text()) / 1e6 for zone in zones]
            self._ranges = [size / 1e6 for size in ranges]
            self.source = "energy of the processor package, all processes included, by RAPL"
