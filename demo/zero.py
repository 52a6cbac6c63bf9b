"""ZeroGPU: each run borrows a GPU, in a forked process.

That process has a copy of this one's memory at the time of the fork, models included, and serves
later runs too. It receives and yields plain data, because both are pickled. Stop reaches it as a
file.
"""

import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from demo import space
from demo.worker import Stop
from moa_core.errors import UserError

try:
    import spaces
except ImportError:
    spaces = None

log = logging.getLogger(__name__)

ON = ("1", "t", "true")  # how the package reads SPACES_ZERO_GPU
MOVING = 15.0  # seconds to move the weights to the GPU; assumed, not measured
RATE = 25.0  # tokens per second, at least, with 8 billion parameters; assumed
Job = Callable[..., Iterator[Any]]  # job(engine, *given, should_stop), a module's function
Engine = Any  # the page's, which builds on this module
HELD: dict[str, Engine] = {}  # the engine, in both processes


def lent() -> bool:
    """Whether GPUs are lent here, per run."""
    return spaces is not None and os.environ.get("SPACES_ZERO_GPU", "").lower() in ON


def hold(engine: Engine) -> None:
    """Load everything in this thread, before any fork. Does nothing without ZeroGPU.

    Until a GPU is borrowed, the package pretends in the main thread that there is one.
    """
    if not lent():
        return
    # Other threads would not be forked, and see no pretended GPU.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")  # transformers reads weights in several
    HELD["engine"] = engine
    engine.borrows = True
    engine.load_here()
    for name in engine.installed:
        with suppress(UserError):  # it did not load: the page says so
            engine.describe(name)
    os.register_at_fork(after_in_child=engine.worker.renew_locks)


def borrowed_seconds(tokens: int) -> int:
    """Seconds to borrow a GPU for this many tokens. UserError if that is too long."""
    seconds = math.ceil(MOVING + tokens / RATE)  # the package drops fractions
    most = space.number(os.environ, "MOA_GPU_SECONDS")
    if seconds > most:
        raise UserError(
            f"A GPU is lent here for at most {most} s, and this may take {seconds} s: choose fewer "
            "tokens, methods or repeats."
        )
    return seconds


def borrow(engine: Engine, tokens: int, job: Job, *given: Any, should_stop: Stop) -> Iterator[Any]:
    """Yield from `job(engine, *given, should_stop)`, on a borrowed GPU under ZeroGPU.

    tokens  the most to decode; gives the time to borrow
    """
    if not engine.borrows:
        yield from job(engine, *given, should_stop)
        return
    seconds = borrowed_seconds(tokens)
    with engine.worker.turn, TemporaryDirectory(prefix="moa-stop-") as folder:
        stop = Path(folder) / "stop"
        with closing(_elsewhere(seconds, str(stop), job, given)) as said:
            for kind, value in said:
                if should_stop():
                    stop.touch()
                if kind != "yielded":
                    raise (UserError if kind == "refused" else RuntimeError)(value)
                yield value


def _work(_: int, stop: str, job: Job, given: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Run the job, in the forked process. Yields (kind, value): yielded, refused or failed."""
    torch.set_num_threads(1)  # a thread pool would not have been forked
    HELD["engine"].borrows = False  # here it has the GPU
    try:
        with closing(job(HELD["engine"], *given, Path(stop).exists)) as made:
            for value in made:
                yield "yielded", value
    except UserError as error:
        yield "refused", str(error)
    except Exception as error:
        log.exception("a run failed on its GPU")
        yield "failed", repr(error)


def _duration(seconds: int, *_: Any) -> int:
    return seconds


# One function for all jobs: the package keeps a process with the weights for each function.
_elsewhere = spaces.GPU(duration=_duration)(_work) if lent() else _work
