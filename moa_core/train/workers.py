"""Processes that prepare text beside the training."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any


class Workers(ProcessPoolExecutor):
    """A pool of fresh processes that Ctrl-C ends without a traceback.

    Processes are spawned because tokenizers and torch do not survive a fork with threads.
    """

    def __init__(self, count: int, begin: Callable[..., None] | None = None, *given: Any) -> None:
        """begin: called with `given` in each process, once."""
        super().__init__(count, multiprocessing.get_context("spawn"), _begin, (begin, given))

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        with _no_interrupts():  # in a process that imports it would end in a traceback
            return super().submit(*args, **kwargs)

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


def _begin(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends the process without a traceback
    _block(signal.SIG_UNBLOCK)
    if begin is not None:
        begin(*given)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Delay Ctrl-C in this thread and in processes that it starts."""
    resource_tracker.ensure_running()  # it would let Ctrl-C through when it starts
    _block(signal.SIG_BLOCK)
    try:
        yield
    finally:
        _block(signal.SIG_UNBLOCK)


def _block(how: int) -> None:
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(how, {signal.SIGINT})
