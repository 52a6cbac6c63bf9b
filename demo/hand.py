"""One thread for all decoding, whoever asks for it.

OpenMP keeps a team of threads for every thread that ever called for one. Once there are more of
them than processors, those that wait sleep instead of spinning, and each of the hundreds of
operations in a cycle has to wake somebody: on two cores a second thread of the page decoded at
150 tokens/s where the first had 413. gradio gives each press of a button whatever thread is free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import closing
from queue import Queue, SimpleQueue
from typing import Any, TypeVar

AHEAD = 16  # events that may be there before they are asked for: the page's feeding stops nothing
T = TypeVar("T")
Made = Queue[tuple[bool, Any]]  # whether it is the end, and an event, or an error or None


class Hand:
    """That thread. It is there from the first use on, and ends with the program."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, events: Iterator[T]) -> Iterator[T]:
        """The same events, made there; one run at a time. Whoever asks for no more ends them."""
        made: Made = Queue(AHEAD)
        enough = threading.Event()
        ended = False
        self._do(lambda: _make(events, made, enough))
        try:
            while True:
                ended, value = made.get()
                if not ended:
                    yield value
                elif value is None:
                    return
                else:
                    raise value
        finally:
            enough.set()
            while not ended:
                ended, _ = made.get()

    def _do(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="decoding")
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get()()


class Aside(Executor):
    """Does each job in a thread of its own, which ends with it, and its team too; one at a time."""

    def __init__(self) -> None:
        self._one = threading.Lock()

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()

        def do() -> None:
            with self._one:
                _settle(done, work, given, named)

        threading.Thread(target=do, daemon=True, name="aside").start()
        return done


class Here(Executor):
    """Does each job at once, in the thread that gives it."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        _settle(done, work, given, named)
        return done


def _settle(
    done: Future[Any], work: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    try:
        done.set_result(work(*given, **named))
    except BaseException as error:
        done.set_exception(error)


def _make(events: Iterator[Any], made: Made, enough: threading.Event) -> None:
    error: BaseException | None = None
    try:
        with closing(events):  # type: ignore[type-var]
            for event in events:
                if enough.is_set():
                    break
                made.put((False, event))
    except BaseException as raised:
        error = raised
    made.put((True, error))
