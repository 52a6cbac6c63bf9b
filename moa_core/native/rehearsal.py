"""Every kernel compiled, or loaded from where numba keeps what it compiled before."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numba import typeof

from moa_core.native import kernels
from moa_core.native.steps import STEP


def rehearsed() -> ModuleType:
    """The kernels, for the types that they are called with."""
    steps, seen = np.empty(0, STEP), np.empty((0, 0), np.bool_)
    numbers = [np.empty((0,) * count, np.float32) for count in range(6)]
    called: dict[Any, tuple[Any, ...]] = {
        kernels.chain: (steps, numbers[2], 0, 0, 0, True, seen),
        kernels.remember: (steps, numbers[5], 0, 0),
        kernels.best: (numbers[2], 1),
    }
    for kernel, given in called.items():
        kernel.compile(tuple(map(typeof, given)))
    return kernels
