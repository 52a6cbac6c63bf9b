"""Joules from counters that wrap around, and None where they cannot be read."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from moa_core.bench import energy
from moa_core.bench.energy import UNREAD, Meter

CPU = torch.device("cpu")


def zone(folder: Path, name: str, joules: float, whole: float = 100) -> Path:
    path = folder / name
    path.mkdir(exist_ok=True)
    (path / "energy_uj").write_text(f"{int(joules * 1e6)}\n")
    (path / "max_energy_range_uj").write_text(f"{int(whole * 1e6)}\n")
    return path


def test_packages_are_summed_and_may_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    zone(tmp_path, "intel-rapl:0", 95)
    zone(tmp_path, "intel-rapl:1", 10, 50)
    zone(tmp_path, "intel-rapl:0:0", 0)  # a part of the first package
    meter = Meter(CPU)
    meter.start()
    zone(tmp_path, "intel-rapl:0", 2)
    zone(tmp_path, "intel-rapl:1", 11, 50)
    zone(tmp_path, "intel-rapl:0:0", 40)
    assert meter.joules() == pytest.approx(7 + 1) and "RAPL" in meter.source


def test_nothing_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    (tmp_path / "intel-rapl:0").mkdir()  # there, but closed to us
    meter = Meter(CPU)
    meter.start()
    assert meter.joules() is None and meter.source == UNREAD


class FakeNvml(ModuleType):
    """NVIDIA's own library, as far as it is used: a counter in millijoules."""

    def __init__(self, readable: bool = True) -> None:
        super().__init__("pynvml")
        self.millijoules, self.readable, self.asked = 5000, readable, -1

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        self.asked = index
        return "handle"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        if not self.readable:
            raise RuntimeError("Not Supported")
        return self.millijoules


def test_a_gpu_is_read_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    meter = Meter(torch.device("cuda", 1))
    meter.start()
    nvml.millijoules = 7500
    assert meter.joules() == pytest.approx(2.5) and "NVML" in meter.source and nvml.asked == 1


@pytest.mark.parametrize("nvml", [None, FakeNvml(readable=False)])  # None: not installed
def test_a_gpu_that_does_not_tell_stays_unmeasured(
    nvml: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    meter = Meter(torch.device("cuda"))
    meter.start()
    assert meter.joules() is None and meter.source == UNREAD
