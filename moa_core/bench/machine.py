"""The machine that measures: device, processor, memory, versions, commit, and joules."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

POWERCAP = Path("/sys/class/powercap")
UNREAD = "neither NVML nor RAPL can be read on this machine"


def machine(device: torch.device) -> dict[str, Any]:
    """What a reader needs to judge the speeds; memory in GiB."""
    facts: dict[str, Any] = {
        "device": device.type,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": _memory(),
        "platform": platform.platform(),
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def versions() -> dict[str, str]:
    """Of what decides speed and rounding."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onnxruntime": version("onnxruntime"),
        "transformers": transformers.__version__,
    }


def commit() -> str | None:
    """The commit of this program, `+ changes` if its code differs; None outside a repository."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "moa_core", "assets/models")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} + changes" if changed else head


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parents[2]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


class Meter:
    """Energy used since `start`: NVML's for an NVIDIA GPU, RAPL's for Intel and AMD.

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
        if self._read:
            self._from = self._read()

    def joules(self) -> float | None:
        """Joules since `start`; None where nothing can be read."""
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
