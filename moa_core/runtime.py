"""The process: threads, memory, output and commit. Call `keep_small` before importing torch."""

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
    import torch

ROOT = Path(__file__).parents[1]
MOST = 1024  # most threads
PRIMITIVES = 128  # oneDNN's cached kernels: one per matrix shape and number of rows
# Bytes: larger blocks are freed at once; this much may stay free at the top.
MAPPED, LEFT = 4 << 20, 8 << 20
MOST_LEFT = 2**31 - 1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # glibc's names in malloc.h
CONTAINER = Path("/sys/fs/cgroup")  # Linux: a container's limits
EVERY = 20.0  # seconds between searches for free pages, each of 3 to 100 ms


def use_threads(asked: int | None) -> None:
    """Set this thread's number of threads; None leaves it. UserError for an invalid number."""
    if asked is None:
        return
    if not 1 <= asked <= MOST:
        raise UserError(f"--threads must be a whole number from 1 to {MOST}.")
    import torch

    torch.set_num_threads(asked)


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

    Environment variables for the same settings take precedence. Several threads scatter free
    pages, which a background thread returns.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
    if libc := _glibc():
        libc.mallopt(M_MMAP_THRESHOLD, MAPPED)
        libc.mallopt(M_TRIM_THRESHOLD, LEFT)
        threading.Thread(target=_give_back, args=(libc,), daemon=True).start()


def keep_freed() -> None:
    """Let glibc's allocator keep what is freed: an update of a training asks for it again.

    Else the system clears these pages each time, which took a fifth of an update.
    """
    if libc := _glibc():
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, MOST_LEFT)


def _glibc() -> ctypes.CDLL | None:
    """The C library if it is glibc, and no environment variable has its settings."""
    if not sys.platform.startswith("linux") or any(
        name.startswith("MALLOC_") for name in os.environ
    ):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None


def _give_back(libc: ctypes.CDLL) -> None:
    while True:
        time.sleep(EVERY)
        libc.malloc_trim(0)


def free_bytes(device: torch.device) -> int:
    """Memory that is free, on a CPU within a container's limit."""
    import torch

    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    import psutil  # accelerate brings it

    free: int = psutil.virtual_memory().available
    try:  # within a container's limit, if there is one
        limit = int((CONTAINER / "memory.max").read_text())
        used = int((CONTAINER / "memory.current").read_text())
        lines = (CONTAINER / "memory.stat").read_text().splitlines()
        files = int(dict(line.split() for line in lines).get("inactive_file", "0"))
        return min(free, limit - used + files)  # file pages can be dropped
    except (OSError, ValueError):  # no such limit, or "max"
        return free
