"""Stands in for the `spaces` package on ZeroGPU: really forks, and really pickles.

As in the package, a task runs in a thread of a forked process, arguments and yields are pickled, a
closed generator ends the task, and a call that the visitor has no time for is a gr.Error. The
package also keeps its processes for later calls.
"""

import pickle
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import gradio as gr

FORK = get_context("fork")
left = 10_000.0  # seconds that the visitor may still borrow
asked: list[float] = []  # seconds, call by call


def GPU(duration: Callable[..., float]) -> Callable[..., Any]:
    """The decorator, for generators called with positional arguments."""

    def decorator(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        @wraps(task)
        def call(*args: Any) -> Iterator[Any]:
            asked.append(duration(*args))
            if asked[-1] > left:
                raise gr.Error("You have exceeded your GPU quota.", title="ZeroGPU quota exceeded")
            here, there = FORK.Pipe(duplex=False)
            given = (task, pickle.dumps(args), there)
            process = FORK.Process(target=_in_a_thread, args=given, daemon=True)
            process.start()
            there.close()
            try:
                while True:
                    yield here.recv()
            except EOFError:
                process.join()
            finally:
                process.kill()

        return call

    return decorator


def _in_a_thread(*given: Any) -> None:
    thread = threading.Thread(target=_serve, args=given)
    thread.start()
    thread.join()


def _serve(task: Callable[..., Iterator[Any]], args: bytes, pipe: Connection) -> None:
    for value in task(*pickle.loads(args)):
        pipe.send(value)
