"""One run decodes at a time, each in a new thread.

OpenMP keeps a team of threads for every thread that has ever used one. With more of them than
processors, waiting threads sleep instead of spinning, and each of the hundreds of operations in a
cycle must wake them. gradio runs each event in any free thread. Here, a job's thread and its team
end with the job.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing
from time import sleep
from typing import TypeVar

AHEAD = 64  # events computed ahead, so that updating the page does not stop decoding
LOOK = 0.015  # seconds between checks for events: a wake-up for each would slow decoding
T = TypeVar("T")
Stop = Callable[[], bool]  # whether a run must end


class Worker:
    """Threads for jobs, a lock for the current run, and the waiting visitors.

    inline     whether jobs run in the caller's thread
    gives_way  whether the current run ends as soon as somebody waits
    waiting    the visitors who have the turn or wait for it
    """

    def __init__(self) -> None:
        self.inline = self.gives_way = False
        self.waiting: set[str | None] = set()
        self.renew_locks()

    def renew_locks(self) -> None:
        """New, free locks: a forked process has none of the threads that may hold the old ones."""
        self.turn, self._alone = threading.Lock(), threading.Lock()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Start a job in a new thread."""
        done: Future[T] = Future()

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
        """The same, one at a time."""

        def work() -> T:
            with self._alone:
                return job()

        return self.submit(work)

    def run(self, events: Iterator[T]) -> Iterator[T]:
        """The same events, computed in a new thread once no other run is in progress. They end when
        the caller stops iterating."""
        made: deque[T] = deque()
        left = threading.Event()

        def fill() -> None:
            with closing(events):
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
