"""Processes that prepare text beside the training."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any


class Workers(ProcessPoolExecutor):
    """A pool of fresh processes that Ctrl-C ends without a traceback.

    Processes are fresh because tokenizers and torch do not survive a fork with threads.
    """

    def __init__(self, count: int, begin: Callable[..., None] | None = None, *given: Any) -> None:
        """begin: called with `given` in each process, once."""
        spawn = multiprocessing.get_context("spawn")
        super().__init__(count, spawn, _begin, (begin, given))

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        with _no_interrupts():  # a process inherits this, and is deaf while it imports
            return super().submit(*args, **kwargs)

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


def _begin(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if begin is not None:
        begin(*given)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change how signals are handled
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
