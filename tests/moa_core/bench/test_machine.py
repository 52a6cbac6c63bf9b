"""What is said of a machine, also where it says little; joules from counters that wrap."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from moa_core.bench import machine
from moa_core.bench.machine import UNREAD, Meter

CPU = torch.device("cpu")


def raising(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> str:
        raise error

    return fail


def test_a_machine_without_proc_and_sysconf_still_has_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "read_text", raising(OSError()))
    monkeypatch.setattr("os.sysconf", raising(OSError()))
    facts = machine.machine(CPU)
    assert facts["memory_gib"] is None and facts["processor"]
    assert facts["cores"] > 0 and facts["device"] == "cpu"


def test_changed_code_is_told_from_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"rev-parse": "abc1234", "status": ""}
    monkeypatch.setattr(machine, "_git", lambda word, *_: said[word])
    assert machine.commit() == "abc1234"
    said["status"] = " M moa_core/decoding/tree.py"
    assert machine.commit() == "abc1234 + changes"
    for error in (FileNotFoundError(), subprocess.CalledProcessError(128, "git")):
        monkeypatch.setattr(machine, "_git", raising(error))
        assert machine.commit() is None, "outside a repository"


def zone(folder: Path, name: str, joules: float, whole: float = 100) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "energy_uj").write_text(f"{int(joules * 1e6)}\n")
    (folder / name / "max_energy_range_uj").write_text(f"{int(whole * 1e6)}\n")


def test_packages_are_summed_and_may_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "POWERCAP", tmp_path)
    zone(tmp_path, "intel-rapl:0", 95)
    zone(tmp_path, "intel-rapl:1", 10, 50)
    zone(tmp_path, "intel-rapl:0:0", 0)  # a part of the first package
    meter = Meter(CPU)
    meter.start()
    zone(tmp_path, "intel-rapl:0", 2)
    zone(tmp_path, "intel-rapl:1", 11, 50)
    zone(tmp_path, "intel-rapl:0:0", 40)
    assert meter.joules() == pytest.approx(7 + 1) and "RAPL" in meter.source


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
def test_what_cannot_be_read_stays_unmeasured(
    nvml: ModuleType | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(machine, "POWERCAP", tmp_path)
    (tmp_path / "intel-rapl:0").mkdir()  # there, but closed to us
    for device in ("cuda", "cpu"):
        meter = Meter(torch.device(device))
        meter.start()
        assert meter.joules() is None and meter.source == UNREAD
