"""Threads and memory."""

import os
import subprocess
import sys

import pytest
import torch

from moa_core import runtime
from moa_core.errors import UserError


def test_the_number_of_threads_is_the_one_that_was_asked_for(monkeypatch):
    taken: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    runtime.use_threads(None)
    runtime.use_threads(3)
    assert taken == [3]
    for absurd in (10**60, 2**31, 0, -1):
        with pytest.raises(UserError, match="a whole number from 1 to 1024"):
            runtime.use_threads(absurd)


def test_a_commit_is_this_programs_and_no_repositorys_around_it(tmp_path, monkeypatch):
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.check_output(["git", "-C", str(tmp_path), *who, *words], text=True)

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "x")
    monkeypatch.setattr(runtime, "ROOT", tmp_path)
    assert runtime.commit() == git("rev-parse", "--short", "HEAD").strip()
    (tmp_path / "moa_core").mkdir()
    (tmp_path / "moa_core" / "new.py").touch()
    assert runtime.commit().endswith(" + changes")
    monkeypatch.setattr(runtime, "ROOT", tmp_path / "moa_core")
    assert runtime.commit() is None


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
