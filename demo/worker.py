"""One thread for all decoding, whoever asks for it.

OpenMP keeps a team of threads for every thread that ever called for one. Once there are more of
them than processors, those that wait sleep instead of spinning, and each of the hundreds of
operations in a cycle has to wake somebody. gradio gives each press of a button whatever thread is
free. What that comes to: `taskset -c 0,1 python -m tests.browser.bench_threads`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import closing
from queue import SimpleQueue
from time import sleep
from typing import Any, TypeVar

AHEAD = 64  # events that may be there before they are asked for: feeding the page stops nothing
LOOK = 0.015  # seconds between two looks for new ones: being woken for each slows the other down
T = TypeVar("T")


class Basket:
    """Events on their way from the thread that makes them to the one that asked."""

    def __init__(self) -> None:
        self.events: deque[Any] = deque()
        self.ended = self.enough = False  # it makes no more; nobody wants any more
        self.error: BaseException | None = None
        self.news = threading.Event()  # worth looking before LOOK is over


class Hand:
    """That thread. It is there from the first use on, and ends with the program."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, events: Iterator[T]) -> Iterator[T]:
        """The same events, made there; one run at a time. Whoever asks for no more ends them."""
        basket = Basket()
        self._do(lambda: _fill(basket, events))
        try:
            while not basket.ended or basket.events:
                while basket.events:
                    yield basket.events.popleft()
                basket.news.wait(LOOK)
                basket.news.clear()
            if basket.error is not None:
                raise basket.error
        finally:
            basket.enough = True
            while not basket.ended:
                basket.news.wait(LOOK)

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


def _fill(basket: Basket, events: Iterator[Any]) -> None:
    try:
        with closing(events):  # type: ignore[type-var]
            for number, event in enumerate(events):
                basket.events.append(event)
                if number == 0:
                    basket.news.set()
                while len(basket.events) >= AHEAD and not basket.enough:
                    sleep(LOOK / 3)
                if basket.enough:
                    break
    except BaseException as raised:
        basket.error = raised
    basket.ended = True
    basket.news.set()
