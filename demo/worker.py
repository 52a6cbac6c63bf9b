"""Who decodes when: one run at a time, in a thread of its own that ends with it.

OpenMP keeps a team of threads for every thread that ever called for one. Once there are more of
them than processors, those that wait sleep instead of spinning, and each of the hundreds of
operations in a cycle has to wake somebody. gradio gives each press of a button whatever thread is
free. So a job has a thread here that ends with it, and its team with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing
from time import sleep
from typing import TypeVar

AHEAD = 64  # events that may be there before they are asked for: feeding the page stops nothing
LOOK = 0.015  # seconds between two looks for new ones: being woken for each slows the other down
T = TypeVar("T")


class Worker:
    """Threads for jobs, a lock for the one run that goes on, and who waits for it.

    inline     whether jobs are done in the thread that asks for them
    begun      jobs that were ever begun
    gives_way  whether the run that goes on ends as soon as somebody waits
    """

    def __init__(self) -> None:
        self.inline = self.gives_way = False
        self.begun = 0
        self._waiting: set[str] = set()
        self.renew_locks()

    def renew_locks(self) -> None:
        """New, free locks: a forked process has none of the threads that may hold the old ones."""
        self.turn, self._alone = threading.Lock(), threading.Lock()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Begin a job, in a thread of its own."""
        done: Future[T] = Future()
        self.begun += 1

        def work() -> None:
            try:
                done.set_result(job())
            except BaseException as error:
                done.set_exception(error)

        if self.inline:
            work()
        else:
            threading.Thread(target=work, daemon=True, name="worker").start()
        return done

    def load(self, job: Callable[[], T]) -> Future[T]:
        """The same, one after the other."""

        def work() -> T:
            with self._alone:
                return job()

        return self.submit(work)

    def run(self, events: Iterator[T]) -> Iterator[T]:
        """The same events, made in a thread of their own when no other run is going on. They end
        when the caller stops asking."""
        made: deque[T] = deque()
        left = threading.Event()

        def fill() -> None:
            with closing(events):  # type: ignore[type-var]
                for event in events:
                    made.append(event)
                    while len(made) >= AHEAD and not left.is_set():
                        sleep(LOOK / 3)
                    if left.is_set():
                        return

        with self.turn:
            if self.inline:
                yield from events
                return
            done = self.submit(fill)
            try:
                while not done.done() or made:
                    while made:
                        yield made.popleft()
                    wait([done], LOOK)
                done.result()
            finally:
                left.set()
                wait([done])

    def join(self, who: str) -> None:
        """Wait for the turn, or have it."""
        self._waiting.add(who)

    @property
    def wanted(self) -> bool:
        """Whether anybody has, or waits for, the turn."""
        return bool(self._waiting)

    def leave(self, who: str) -> None:
        self._waiting.discard(who)
