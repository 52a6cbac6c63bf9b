"""Stands in for the `spaces` package on ZeroGPU: really forks, and really pickles.

As the package does it: the process is forked at the first call and used again; arguments and yields
are pickled; the task runs in a thread there; a closed generator stops it after its next yield; and
a call that the visitor has no time for is a gr.Error. It has no server whose connections the fork
would have to close.
"""

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from multiprocessing import connection, get_context, parent_process
from typing import Any

import gradio as gr

FORK = get_context("fork")
left = 10_000.0  # seconds that the visitor may still borrow
asked: list[float] = []  # seconds, call by call
workers: list["Worker"] = []
inside = False  # in a forked process


class Worker:
    """A forked process, for one call at a time."""

    def __init__(self, task: Callable[..., Iterator[Any]]) -> None:
        self.asks, self.answers, self.stop = FORK.SimpleQueue(), FORK.SimpleQueue(), FORK.Event()
        self.process = FORK.Process(target=self._serve, args=(task,), daemon=True)
        self.process.start()

    def answer(self) -> tuple[str, Any]:
        """The next one; ("died", None) if there will be none."""
        connection.wait([self.answers._reader, self.process.sentinel])
        if self.answers.empty():
            self.process.join()
            return "died", None
        return self.answers.get()

    def _serve(self, task: Callable[..., Iterator[Any]]) -> None:
        global inside
        inside = True
        above = parent_process()
        while True:
            if self.asks._reader not in connection.wait([self.asks._reader, above.sentinel]):
                return  # nobody is left who could ask
            args = self.asks.get()
            self.stop.clear()
            thread = threading.Thread(target=self._iterate, args=(task, args))
            thread.start()
            thread.join()
            self.answers.put(("end", None))

    def _iterate(self, task: Callable[..., Iterator[Any]], args: tuple[Any, ...]) -> None:
        made = task(*args)
        try:
            for value in made:
                if self.stop.is_set():
                    made.close()
                    return
                self.answers.put(("yielded", value))
        except Exception as error:
            self.answers.put(("failed", type(error).__name__))


def GPU(task: Any = None, *, duration: Any = None) -> Any:
    """The decorator, for generators called with positional arguments."""
    if task is None:
        return lambda later: GPU(later, duration=duration)
    idle: list[Worker] = []

    @wraps(task)
    def call(*args: Any) -> Iterator[Any]:
        if inside:
            yield from task(*args)
            return
        asked.append(duration(*args))
        if asked[-1] > left:
            raise gr.Error("You have exceeded your GPU quota.", title="ZeroGPU quota exceeded")
        if not idle:
            idle.append(Worker(task))
            workers.extend(idle)
        worker = idle.pop()
        worker.asks.put(args)
        try:
            yield from _answers(worker)
        finally:
            idle.extend([worker] if worker.process.is_alive() else [])

    return call


def _answers(worker: Worker) -> Iterator[Any]:
    while True:
        kind, value = worker.answer()
        if kind == "end":
            return
        if kind != "yielded":
            raise gr.Error(value or "GPU task aborted", title="ZeroGPU worker error")
        try:
            yield value
        except GeneratorExit:
            worker.stop.set()
            while worker.answer()[0] not in ("end", "died"):
                pass
            raise


def end() -> None:
    """Kill all that was forked."""
    while workers:
        worker = workers.pop()
        worker.process.kill()
        worker.process.join()
    asked.clear()
