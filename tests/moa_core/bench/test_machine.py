"""What is said of a machine, also where it says little of itself."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.bench import machine


def test_a_machine_without_proc_and_sysconf_still_has_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(*_: Any, **__: Any) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", closed)
    monkeypatch.setattr("os.sysconf", closed)
    facts = machine.machine(torch.device("cpu"))
    assert facts["memory_gib"] is None and facts["processor"]
    assert facts["cores"] > 0 and facts["device"] == "cpu"


def test_changed_code_is_told_from_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"rev-parse": "abc1234", "status": ""}
    monkeypatch.setattr(machine, "_git", lambda folder, word, *_: said[word])
    assert machine.commit() == "abc1234"
    said["status"] = " M moa_core/decoding/tree.py"
    assert machine.commit() == "abc1234 + changes"


@pytest.mark.parametrize("error", [FileNotFoundError, subprocess.CalledProcessError(128, "git")])
def test_outside_a_repository_there_is_no_commit(
    error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> str:
        raise error

    monkeypatch.setattr(machine, "_git", failing)
    assert machine.commit() is None
