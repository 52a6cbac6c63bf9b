"""The process: threads, memory, output and commit."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from moa_core.errors import UserError

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parents[1]
MOST = 1024  # most threads
MOST_LEFT = 2**31 - 1  # bytes that stay free
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # glibc's names in malloc.h
CONTAINER = Path("/sys/fs/cgroup")  # Linux: a container's limits


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
    own = {**os.environ, "GIT_DIR": str(ROOT / ".git")}  # an installation may lie in another one's
    git = partial(subprocess.check_output, cwd=ROOT, env=own, text=True, stderr=subprocess.DEVNULL)
    try:
        head = git(["git", "rev-parse", "--short", "HEAD"]).strip()
        changed = git(["git", "status", "--porcelain", "--", "moa_core", "assets/models"])
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} + changes" if changed else head


def keep_freed() -> None:
    """Let glibc's allocator keep what is freed: an update of a training asks for it again.

    Else the system clears these pages each time, which took a fifth of an update. Nothing is done
    where an environment variable has settings for the allocator.
    """
    named = any(name.startswith("MALLOC_") for name in os.environ)
    if named or not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, MOST_LEFT)


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
