"""How numba compiles what drafts, and what all of it is made of: types, limits, e^x.

Kernels alone are kept on disk, with all that they call: see `kernels.ELSEWHERE`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

F = np.float32
LITTLE = F(1e-30)  # less than the largest number of any row
NOWHERE = F(-1e30)  # the score of what a row may not attend to

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bytes = NDArray[np.int8]  # numbers of a matrix, each output's over a scale of its own
Words = NDArray[np.int16]
Mask = NDArray[np.bool_]
Function = TypeVar("Function", bound=Callable[..., Any])
OPTIONS: dict[str, Any] = {
    "fastmath": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}


def kernel(function: Function) -> Function:
    """A kernel that Python calls."""
    compiled: Function = njit(cache=True, **OPTIONS)(function)
    return compiled


def piece(function: Function) -> Function:
    """What kernels call."""
    compiled: Function = njit(no_cpython_wrapper=True, **OPTIONS)(function)
    return compiled


# 2^f for f from 0 to 1 is a polynomial to within 8e-8.
P0, P1, P2 = F(0.99999993), F(0.69315307), F(0.24015361)
P3, P4, P5 = F(0.055826318), F(0.0089893407), F(0.0018775764)
LOG2E, BIAS, LEAST, MOST = F(1.4426950408889634), F(127), F(1), F(254)


@piece
def exp(x: np.float32) -> np.float32:
    """e^x in a form that is done for many numbers at once."""
    t = min(max(x * LOG2E + BIAS, LEAST), MOST)
    whole = np.int32(t)
    f = t - F(whole)
    power = P0 + f * (P1 + f * (P2 + f * (P3 + f * (P4 + f * P5))))
    return power * np.int32(whole << np.int32(23)).view(np.float32)
