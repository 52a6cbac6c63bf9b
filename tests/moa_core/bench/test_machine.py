"""What is said of a machine, also where it says little."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.bench import machine

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
