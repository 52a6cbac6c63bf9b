"""Runs app.py with the real `spaces` package, as on ZeroGPU, but for what needs a GPU.

Real are its pretended GPU while models are loaded, its fork, its queues and its way back. Replaced
are the three steps that reach for one: weights stay where they are instead of going to disk and
from there to a GPU, and none is woken.

    python without_gpu.py    in the program's folder, SPACES_ZERO_DEVICE_API_URL naming a stand-in
"""

import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

sys.path[0] = os.getcwd()  # not this folder, whose `spaces` is another stand-in

from spaces.zero import torch as lender  # noqa: E402
from spaces.zero.torch.patching import cuda_aliases  # noqa: E402


def keep() -> int:
    """In place of writing weights to disk."""
    print(f"held {lender.size()} bytes", file=sys.stderr, flush=True)
    return 0


def wake(uuid: str) -> None:
    """In place of waking a GPU."""
    print(f"lent {uuid}", file=sys.stderr, flush=True)


def stay(callback: Callable[[int], Any] | None = None) -> None:
    """In place of moving weights to it."""
    for fake, original in cuda_aliases.items():
        fake.data = original


lender.pack, lender.init, lender.move = keep, wake, stay
sys.argv = ["app.py"]
runpy.run_path("app.py", run_name="__main__")
