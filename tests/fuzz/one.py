"""The process that fuzzes: a target by name, a corpus folder, libFuzzer's own options."""

from __future__ import annotations

import random
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import atheris

LARGEST = 64  # MiB that a single input may add to the most memory ever taken
STRUCTURED = 0.7  # share of mutations that change values, where the others change bytes

with atheris.instrument_imports(include=["moa_core", "demo"]):
    from moa_core.errors import UserError
    from moa_core.link.wire import WireError
    from tests.fuzz import targets

_seen: set[str] = set()


def watched(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, with what is not intended told once and gone on from."""

    def one(data: bytes) -> None:
        before = _peak()
        try:
            run(data)
        except (UserError, WireError):
            pass
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            _tell(f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}", data)
        if (grown := _peak() - before) > LARGEST:
            _tell(f"{grown} MiB for one input", data)

    return one


def _tell(what: str, data: bytes) -> None:
    if what not in _seen:
        _seen.add(what)
        print(f"FINDING {what}: {data.hex()}", flush=True)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def mutator(change: Callable[[bytes, int], bytes | None]) -> Callable[[bytes, int, int], bytes]:
    """libFuzzer's own, or a target's way to change values."""

    def custom(data: bytes, most: int, seed: int) -> bytes:
        if random.Random(seed).random() < STRUCTURED:
            made = change(bytes(data), seed)
            if made is not None:
                return made[:most]
        made = atheris.Mutate(data, most)
        return bytes(made)

    return custom


def main(name: str, folder: str, *options: str) -> None:
    target: Any = targets.TARGETS[name]()
    for number, data in enumerate(target.seeds()):
        (Path(folder) / str(number)).write_bytes(data)
    warnings.simplefilter("ignore")
    for data in target.seeds():  # what is loaded at first use is nobody's finding
        with suppress(UserError, WireError):
            target.run(data)
    arguments = [sys.argv[0], *options, folder]
    atheris.Setup(arguments, watched(target.run), custom_mutator=mutator(target.change))
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
