"""The process: its threads, its memory, and what it prints. `keep_small` comes before torch."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from moa_core.errors import UserError

if TYPE_CHECKING:
    from moa_core.model.target import Target

ROOT = Path(__file__).parents[1]
LARGE = 3e8  # numbers of a model that is large enough to use all threads
MOST = 1024  # threads that may be asked for
READ, NODES = 64, 12  # tokens of the prompt; drafts of the tree
TIMES = 8

PRIMITIVES = 128  # that oneDNN keeps: one for each matrix's shape and number of rows
# In bytes: larger blocks are given back at once; this much may be left over at the top.
MAPPED, LEFT = 1 << 20, 4 << 20
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's names in malloc.h
EVERY = 20.0  # seconds between searches for free pages, each of 3 to 100 ms


def check_threads(asked: int | None) -> None:
    """UserError for a number of threads that torch does not take. None: the quickest."""
    if asked is not None and not 1 <= asked <= MOST:
        raise UserError(f"--threads must be a whole number from 1 to {MOST}.")


def settle(target: Target, asked: int | None = None) -> int:
    """Set this thread's number of threads: as asked, by OMP_NUM_THREADS, or the quickest."""
    import torch

    if asked or (target.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ):
        torch.set_num_threads(asked or quickest(target))
    return torch.get_num_threads()


def quickest(target: Target) -> int:
    """The number, of powers of two up to torch's own, that verifies and steps soonest.

    Operations of a small model are so short that threads wait for each other. So some steps of the
    target are timed with each number; a large model takes all threads. A smaller number wins
    unless a larger one is a twentieth quicker.
    """
    import torch

    target, most = target.fork(), torch.get_num_threads()
    size = sum(weight.numel() for weight in target.model.parameters())
    if most == 1 or size > LARGE or getattr(target.model, "is_quantized", False):
        return most
    best, least = most, float("inf")
    with torch.inference_mode():
        try:
            for number in [*(2**n for n in range(most.bit_length()) if 2**n < most), most]:
                torch.set_num_threads(number)
                took = _seconds(target)
                if took < 0.95 * least:
                    best, least = number, took
            return best
        finally:
            torch.set_num_threads(most)


def _seconds(target: Target) -> float:
    """The shortest plain step and the shortest verification of a tree, together."""
    from moa_core.decoding.tree import DraftTree

    nodes = NODES + 1
    chain = DraftTree((0,) * nodes, tuple(range(-1, NODES)), tuple(range(nodes)), (0.0,) * nodes)
    target.prefill([0] * READ, READ + nodes)  # a run keeps the threads that it began with

    def took(tree: DraftTree) -> float:
        began = time.perf_counter()
        target.verify(tree)
        return time.perf_counter() - began

    return sum(min(took(tree) for _ in range(TIMES)) for tree in (DraftTree.only_root(0), chain))


def quiet() -> None:
    """No progress bars and no warnings of transformers: a command prints its own lines."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def commit() -> str | None:
    """The commit of this program, `+ changes` if its code differs; None outside a repository."""
    git = partial(subprocess.check_output, cwd=ROOT, text=True, stderr=subprocess.DEVNULL)
    try:
        head = git(["git", "rev-parse", "--short", "HEAD"]).strip()
        changed = git(["git", "status", "--porcelain", "--", "moa_core", "assets/models"])
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} + changes" if changed else head


def keep_small() -> None:
    """Bound oneDNN's cache and, with glibc, what its allocator holds on to. Call before torch.

    Environment variables for the same things win. Several threads scatter free pages: a thread
    gives those back.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
    if not sys.platform.startswith("linux") or any(
        name.startswith("MALLOC_") for name in os.environ
    ):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(M_MMAP_THRESHOLD, MAPPED)
        libc.mallopt(M_TRIM_THRESHOLD, LEFT)
        threading.Thread(target=_give_back, args=(libc,), daemon=True).start()


def _give_back(libc: ctypes.CDLL) -> None:
    while True:
        time.sleep(EVERY)
        libc.malloc_trim(0)
