"""For tests: a process that is killed with `kill -9` and started again, until it has its way."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def command(*words: str, models: Path) -> Callable[[], subprocess.Popen[bytes]]:
    """Starts `python -m moa_core` with these words on one thread and a bundle."""
    environment: Mapping[str, str] = os.environ | {
        "MOA_MODELS": str(models), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "moa_core", *words], cwd=ROOT, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    return start


def lines(path: Path) -> int:
    """How many lines a file has."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def through_kills(
    start: Callable[[], subprocess.Popen[bytes]], log: Path, steps: tuple[int, int], kills: int,
    seed: int,
) -> list[int]:  # fmt: skip
    """Start, kill and start again, then let it end. Returns how far it was at each kill.

    log    grows by a line with each step
    steps  from the fewest to the most that are let pass before a kill
    """
    rng, found = random.Random(seed), list[int]()
    for _ in range(kills):
        process, due = start(), lines(log) + rng.randint(*steps)
        deadline = time.monotonic() + 180
        while lines(log) < due and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.2)
        assert process.poll() is None, "it ended before it could be killed"
        process.kill()
        process.wait(30)
        found.append(lines(log))
    assert start().wait(600) == 0
    return found
