"""Whether compiled kernels are to be had in this process, and getting them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock, Thread
from types import ModuleType
from typing import Any

COMPILING = "Compiling kernels, once on this machine: some 20 seconds."
UNTOLD = 3.0  # seconds: compiled before, they are loaded in less
_lock = Lock()
_thread: Thread | None = None
_kernels: Any = None
_form = (0, 0)
_wanted = True
_later = False


def kernels() -> Any:
    """The module of kernels once they are compiled, unless they are switched off."""
    return _kernels if _wanted else None


def tile() -> int:
    """How many outputs of a matrix the kernels want together."""
    return _form[0]


def most_rows() -> int:
    """How many rows of an input they do at most."""
    return _form[1]


def prepare(later: bool = False) -> None:
    """Load the kernels, if that is not done. Compiling them takes some 20 seconds, once a machine:
    numba keeps them on disk. A line on stderr tells whoever waits.

    later  from now on nobody waits for them in this process, and torch drafts until they are there
    """
    global _thread, _later
    if not _wanted:
        return
    _later = _later or later
    with _lock:
        if _thread is None:
            # No daemon: the process would end amid compiling, and the next would compile again.
            _thread = Thread(target=_load, name="kernels")
            _thread.start()
    if _later:
        return
    _thread.join(UNTOLD)
    if _thread.is_alive():
        print(COMPILING, file=sys.stderr, flush=True)
    _thread.join()


def missing() -> bool:
    """Whether it is known that there are no kernels on this machine."""
    return _thread is not None and not _thread.is_alive() and _kernels is None


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """With or without kernels for a while, in the whole process: for tests and comparisons."""
    global _wanted
    before, _wanted = _wanted, on
    try:
        yield
    finally:
        _wanted = before


@contextmanager
def replaced(other: Callable[[ModuleType], Any]) -> Iterator[None]:
    """With another in the place of the kernels, made from them: for a profile."""
    global _kernels
    before = _kernels
    _kernels = None if before is None else other(before)
    try:
        yield
    finally:
        _kernels = before


def _load() -> None:
    global _kernels, _form
    try:
        # By name, here alone: it needs numba, which may be missing.
        found = import_module("moa_core.native.rehearsal").rehearsed()
        _form, _kernels = (found.TILE, found.ROWS), found
    except Exception as error:  # not installed, or not for this processor
        logging.getLogger(__name__).info("No compiled kernels: %s", error)
