"""Threads, if nobody says otherwise, and memory."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from moa_core import runtime
from moa_core.errors import UserError
from tests.models import tiny_target


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A processor of eight threads, and the seconds of a step by number of threads."""
    now = SimpleNamespace(number=8, tried=[], costs={1: 3.0, 2: 2.0, 4: 1.95, 6: 0.5, 8: 4.0})

    def take(number: int) -> None:
        now.number = number
        now.tried.append(number)

    monkeypatch.setattr(torch, "get_num_threads", lambda: now.number)
    monkeypatch.setattr(torch, "set_num_threads", take)
    monkeypatch.setattr(runtime, "_seconds", lambda target: now.costs[now.number])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return now


def test_the_quickest_number_wins_unless_a_smaller_one_is_nearly_as_quick(threads):
    target = tiny_target()
    assert runtime.quickest(target) == 2 and threads.number == 8  # it only tells
    threads.costs[4] = 1.0
    assert runtime.settle(target) == threads.number == 4
    threads.number = 6  # a number between two powers is tried too
    assert runtime.settle(target) == 6


def test_what_was_asked_for_wins_and_large_models_are_not_measured(threads, monkeypatch):
    target = tiny_target()
    monkeypatch.setattr(runtime, "LARGE", 10)
    assert runtime.settle(target) == 8 and set(threads.tried) <= {8}
    assert runtime.settle(target, 3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    threads.tried.clear()
    assert runtime.settle(target) == 3 and not threads.tried
    runtime.check_threads(None)
    for absurd in (10**60, 2**31, 0, -1):
        with pytest.raises(UserError, match="a whole number from 1 to 1024"):
            runtime.check_threads(absurd)


def test_a_real_measurement_leaves_the_target_as_it_was(monkeypatch):
    target, tried = tiny_target(), []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", tried.append)
    assert runtime.quickest(target) in (1, 2) and tried == [1, 2, 2]
    assert target._cache is None  # it decoded in a fork


FAULTS = """
import platform, resource
from moa_core.runtime import keep_freed

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    size = 40 << 20  # more than glibc keeps by itself
    for _ in range(20):
        b"x" * size  # 10,240 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
keep_freed()
faults()
print(platform.libc_ver()[0] or "other", first, faults())
"""


def test_training_keeps_the_memory_that_it_frees():
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", FAULTS]
    libc, first, later = subprocess.check_output(command, text=True, env=clean).split()
    if libc != "glibc":
        pytest.skip("only glibc's allocator is told")
    assert int(first) > 10_000 and int(later) < 1_000
