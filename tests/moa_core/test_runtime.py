"""How many threads decode, and a process that stays small: where nobody said otherwise."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from moa_core import runtime
from moa_core.errors import UserError
from tests.models import tiny_target

SMALL = """
import ctypes, os, sys, threading
calls, given_back = [], threading.Event()
class Libc:
    gnu_get_libc_version = None
    def mallopt(self, what, bytes):
        calls.append((what, bytes))
    def malloc_trim(self, left):
        given_back.set()
ctypes.CDLL = lambda name: Libc()
from moa_core import runtime
runtime.EVERY = 0.01
runtime.keep_small()
print(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], sorted(calls), "torch" in sys.modules,
      given_back.wait(30 if calls else 0.1))
"""


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "128 [(-3, 1048576), (-1, 4194304)] False True"),
        (
            {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "7", "MALLOC_ARENA_MAX": "2"},
            "7 [] False False",
        ),
    ],
)
def test_cache_and_allocator_are_bound_before_torch_is_there(
    variables: dict[str, str], words: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    kept.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY", None)
    done = subprocess.run(
        [sys.executable, "-c", SMALL], env=kept | variables, capture_output=True, text=True
    )
    assert done.stdout.strip() == words, done.stderr


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


def test_the_quickest_number_wins_unless_a_smaller_one_is_nearly_as_quick(
    threads: SimpleNamespace,
) -> None:
    target = tiny_target()
    assert runtime.quickest(target) == 2 and threads.number == 8  # it only tells
    threads.costs[4] = 1.0
    assert runtime.settle(target) == threads.number == 4
    threads.number = 6  # a number between two powers is tried too
    assert runtime.settle(target) == 6


def test_what_was_asked_for_wins_and_large_models_are_not_measured(
    threads: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tiny_target()
    monkeypatch.setattr(runtime, "LARGE", 10)
    assert runtime.settle(target) == 8 and set(threads.tried) <= {8}
    assert runtime.settle(target, 3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    threads.tried.clear()
    assert runtime.settle(target) == 3 and not threads.tried
    for absurd in (10**60, 2**31):
        with pytest.raises(UserError, match="at most 1024 threads"):
            runtime.settle(target, absurd)


def test_a_real_measurement_leaves_the_target_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    target, tried = tiny_target(), []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", tried.append)
    assert runtime.quickest(target) in (1, 2) and tried == [1, 2, 2]
    assert target._cache is None  # it decoded in a fork
