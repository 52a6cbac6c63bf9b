"""What keeps a process that decodes for hours as small as it was after some minutes.

Call `keep_small` before torch is imported. 320 texts with prompts of all lengths, ten methods in
turn: from the 120th to the last the process grew from 1,182 to 1,326 MB, bound from 992 to 1,035
(`python -m tests.bench_footprint` with and without `--as-it-is`, one thread). With several threads
what is free lies scattered between what is not, so that it is looked for now and then as well.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

PRIMITIVES = 128  # that oneDNN keeps: one for each matrix's shape and number of rows
# In bytes: larger blocks are given back at once; so much may be left over at the top.
MAPPED, LEFT = 1 << 20, 4 << 20
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's names in malloc.h
EVERY = 20.0  # seconds from one look for free pages, of 3 to 100 ms, to the next


def keep_small() -> None:
    """Bound oneDNN's cache and, with glibc, what its allocator holds on to.

    Variables of the environment that say otherwise go before.
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
    """Free pages of all threads' heaps, back to the system for as long as the process lives."""
    while True:
        time.sleep(EVERY)
        libc.malloc_trim(0)
