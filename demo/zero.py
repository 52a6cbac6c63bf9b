"""ZeroGPU: a press of a button borrows a GPU, and its work runs in a process forked for that.

That process has a copy of this one's memory as it was when it was forked, models included, and is
used again for later presses. Nothing that it changes is changed here. So what a run needs of its
visitor is sent to it, and what it leaves behind is sent back with its last word; both go as bytes,
in which the models are only named. A Stop reaches it as a file that it looks for.

Where no GPUs are lent, `lend` gives the work back as it is, and nothing else here is used.
"""

from __future__ import annotations

import copy
import io
import logging
import math
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerBase

from demo import space
from demo.engine import Engine
from moa_core.errors import UserError

try:
    import spaces
except ImportError:
    spaces = None

log = logging.getLogger(__name__)

ON = ("1", "t", "true")  # how the package reads SPACES_ZERO_GPU
MOVING = 15.0  # seconds for the weights on their way to the GPU; assumed, not measured
RATE = 25.0  # tokens per second at least, of 8 billion parameters on such a GPU; assumed as well
LOOK = 0.05  # seconds between two looks at whether a run is to stop
CARRIED = ("trace", "shown")  # of a visit: what works read, and leave behind

Cost = Callable[..., int]  # from a visit and a run's inputs to the tokens it decodes at most
HELD: dict[str, Any] = {}  # what is named, not sent: by name, the same on both sides of the fork


def lent() -> bool:
    """Whether GPUs are lent here, for a while at a time."""
    return spaces is not None and os.environ.get("SPACES_ZERO_GPU", "").lower() in ON


def lend(work: Any, engine: Engine, cost: Cost) -> Any:
    """The same work, with a borrowed GPU where GPUs are lent.

    work  work(visit, should_stop, *inputs), made of functions that modules hold, so that it can be
          sent
    """
    if not lent():
        return work

    def elsewhere(visit: Any, should_stop: Callable[[], bool], *inputs: Any) -> Iterator[Any]:
        seconds = borrowed_seconds(cost(visit, *inputs))
        yield from _follow(engine, pack((work, _sent(visit), inputs)), seconds, visit, should_stop)

    return elsewhere


def hold(engine: Engine) -> None:
    """Load everything in this thread, before any fork. No effect where no GPUs are lent.

    The package makes believe that there is a GPU until one is borrowed, in the main thread alone.
    """
    if not lent():
        return
    # Threads would not be forked, and in others than this one nothing makes believe.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")  # transformers reads weights in several
    HELD["engine"] = engine
    engine.borrows = True
    engine.load_here()
    for name in engine.installed:
        with suppress(UserError):  # it did not load: the page says so
            HELD[f"tokenizer of {name}"] = engine.target(name).tokenizer
            engine.describe(name)
    os.register_at_fork(after_in_child=engine.renew_locks)


def borrowed_seconds(tokens: int) -> int:
    """How long to borrow a GPU for so many tokens. UserError where that is longer than allowed."""
    seconds = math.ceil(MOVING + tokens / RATE)  # the package would cut a fraction off
    most = space.number(os.environ, "MOA_GPU_SECONDS")
    if seconds > most:
        raise UserError(
            f"GPUs are lent here for {most} s at a time, and this may take {seconds} s: ask "
            "for fewer tokens, methods or repeats."
        )
    return seconds


# ---- here ----


def _follow(
    engine: Engine, packed: bytes, seconds: int, visit: Any, should_stop: Callable[[], bool]
) -> Iterator[Any]:
    """What the work yields elsewhere; its UserError, if it has one, and what it left behind."""
    number, failed = getattr(visit, "number", None), None
    with engine.working(), _stop_file(should_stop) as stop:
        said = _elsewhere(packed, seconds, str(stop))
        with closing(said), _touched(stop):  # type: ignore[type-var]
            for kind, value in map(unpack, said):
                if kind == "yielded":
                    yield value
                elif kind != "left":
                    failed = UserError(value) if kind == "refused" else RuntimeError(value)
                elif visit.number == number:  # else they have begun something else meanwhile
                    vars(visit).update(value)
    if failed is not None:
        raise failed


@contextmanager
def _touched(path: Path) -> Iterator[None]:
    """In the end the file appears: nobody listens any more."""
    try:
        yield
    finally:
        path.touch()


@contextmanager
def _stop_file(should_stop: Callable[[], bool]) -> Iterator[Path]:
    """A path at which a file appears when the run is to stop."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK):
            if should_stop():
                path.touch()
                return

    with TemporaryDirectory(prefix="moa-stop-") as folder:
        path = Path(folder) / "stop"
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield path
        finally:
            over.set()
            watcher.join()


def _sent(visit: Any) -> Any:
    """A visit's copy with what works read: no link, whose sockets are this process's."""
    if visit is None:
        return None
    sent = copy.copy(visit)
    sent.link = sent.far = None
    return sent


# ---- elsewhere ----


def _work(packed: bytes, seconds: int, stop: str) -> Iterator[bytes]:
    """Run the work that was sent. Yields (kind, value), packed: yielded, refused, failed, left."""
    del seconds
    torch.set_num_threads(1)  # a pool of threads would not have been forked with the rest
    work, visit, inputs = unpack(packed)
    before = getattr(visit, "trace", None)
    try:
        with closing(work(visit, Path(stop).exists, *inputs)) as made:
            for value in made:
                yield pack(("yielded", value))
    except UserError as error:
        yield pack(("refused", str(error)))
    except Exception as error:
        log.exception("a run failed on its GPU")
        yield pack(("failed", repr(error)))
    if visit is not None:
        left = {name: getattr(visit, name) for name in CARRIED}
        if visit.trace is before:  # then it stays the same object here: tabs look at that
            del left["trace"]
        yield pack(("left", left))


def _duration(packed: bytes, seconds: int, stop: str) -> int:
    del packed, stop
    return seconds


# One function for all works: the package keeps a process, with the weights in it, for each.
_elsewhere = spaces.GPU(duration=_duration)(_work) if lent() else _work


# ---- between the two ----


class _Packer(pickle.Pickler):
    def persistent_id(self, thing: Any) -> str | None:
        if isinstance(thing, Engine | PreTrainedTokenizerBase):
            return next((name for name, held in HELD.items() if held is thing), None)
        return None

    def reducer_override(self, thing: Any) -> Any:
        # The text of a run that has ended, which nobody goes on with.
        return (_new_stream, ()) if isinstance(thing, DecodeStream) else NotImplemented


def _new_stream() -> DecodeStream:
    return DecodeStream(skip_special_tokens=True)


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Any:
        return HELD[name]


def pack(value: Any) -> bytes:
    """As bytes; the engine and its tokenizers by name."""
    file = io.BytesIO()
    _Packer(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def unpack(packed: bytes) -> Any:
    """What was packed on the other side of a fork."""
    return _Unpacker(io.BytesIO(packed)).load()
