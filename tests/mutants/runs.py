"""Runs tests against one mutant at a time, in a copy of the tree."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.mutants.mutant import ROOT, Mutant

LIMIT = 60.0  # seconds that the tests of one mutant may take
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".coverage*", "runs", "screenshots"
)
PASSED, FAILED, INTERRUPTED = 0, 1, 2  # pytest's exit codes; the last: a file cannot be imported


class Unusable(Exception):
    """The check itself cannot say anything: tests that fail unmutated, or that do not exist."""


@dataclass(frozen=True)
class Outcome:
    """How a run of some tests ended. code: None where it took too long."""

    code: int | None
    seconds: float
    output: str

    @property
    def by(self) -> str:
        """Who noticed: the first test that failed, or how else the run ended."""
        found = re.search(r"^(?:FAILED|ERROR) (?:\S*/)?(.+?)(?: - .*)?$", self.output, re.MULTILINE)
        if found:
            return found[1]
        return "took too long" if self.code is None else f"ended with {self.code}"


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    outcome: Outcome

    @property
    def killed(self) -> bool:
        return self.outcome.code != PASSED


def copied(to: Path, root: Path = ROOT) -> Path:
    """A copy of the tree as it is now, uncommitted changes included."""
    shutil.copytree(root, to, ignore=LEFT_OUT)
    return to


def run_tests(tree: Path, files: list[str], limit: float) -> Outcome:
    """pytest over some files of a tree, up to the first failure."""
    # Without bytecode: a mutant may be as old and as long, to the second and the byte, as its file.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    began = monotonic()
    process = subprocess.Popen(
        [*command, *files], cwd=tree, env=env, text=True, encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        output, code = "", None
    finally:
        _end(process)
    return Outcome(code, monotonic() - began, output)


def _end(process: subprocess.Popen[str]) -> None:
    """A run, and whatever it started and left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def unmutated(tree: Path, files: list[str], limit: float) -> Outcome:
    """Tests on the tree as it is. Unusable if they do not pass."""
    outcome = run_tests(tree, files, limit)
    if outcome.code != PASSED:
        raise Unusable(
            f"Without any mutant, {' '.join(files)}: {outcome.by}.\n{outcome.output[-3000:]}"
        )
    return outcome


def judged(tree: Path, mutant: Mutant) -> Verdict:
    """Put a mutant into a copy, run its tests, and take it out again.

    A run that crashed or took too long counts as killed only if the same tests pass right after,
    without the mutant, in half that time: a machine that is busy or short of memory kills nothing.
    """
    file = mutant.file(tree)
    original = file.read_text(encoding="utf-8")
    try:
        file.write_text(mutant.broken(tree), encoding="utf-8")
        outcome = run_tests(tree, mutant.test_files(), LIMIT)
    finally:
        file.write_text(original, encoding="utf-8")
    if outcome.code not in (PASSED, FAILED):
        unmutated(tree, mutant.test_files(), LIMIT / 2)
    return Verdict(mutant, outcome)
