"""How fast the page decodes, whatever thread asks: `python -m tests.browser.bench_threads`.

gradio gives each press of a button whatever thread is free. Prints tokens/s of the bundle's runs
asked for by a first and by a second thread: decoded by `demo.worker`, and in those threads.
On two cores: `taskset -c 0,1` before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from statistics import median
from typing import Any

from demo.common.prompt import EXAMPLES
from demo.engine import Engine, Request
from demo.worker import Worker

PROMPT = next(iter(EXAMPLES.values()))
METHODS = ("vanilla", "eagle2", "moa-n0")
PASSES = 5


class Same(Worker):
    """Decodes in the thread that asks."""

    def run(self, events: Iterator[Any]) -> Iterator[Any]:
        return events


def paces(engine: Engine) -> dict[str, int]:
    """Tokens per second of each method, median; the first pass warms up."""
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(PASSES + 1):
        for method, seen in found.items():
            run = engine.prepare(Request(PROMPT, method, 160))
            for _ in run.events:
                pass
            seen.append(run.trace.tokens_per_second or 0.0)
    return {method: round(median(seen[1:])) for method, seen in found.items()}


def both(name: str, worker: Callable[[], Worker]) -> None:
    """From two threads that stay, one after the other, as gradio's do."""
    engine, over, threads = Engine(), threading.Event(), list[threading.Thread]()
    engine.worker = worker()
    for number in ("first", "second"):
        done = threading.Event()

        def ask(number: str = number, done: threading.Event = done) -> None:
            print(f"{name}, {number} thread: {paces(engine)}")
            done.set()
            over.wait()

        threads.append(threading.Thread(target=ask))
        threads[-1].start()
        done.wait()
    over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    for name, worker in (("a thread for each run", Worker), ("decoded where asked for", Same)):
        process = get_context("spawn").Process(target=both, args=(name, worker))
        process.start()
        process.join()
