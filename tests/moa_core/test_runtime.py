"""Threads and memory."""

import subprocess

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
