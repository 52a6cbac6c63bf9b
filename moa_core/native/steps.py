"""What a chain of layers is to the compiled kernels: numbers, and addresses of arrays."""

from __future__ import annotations

import numpy as np

LINEAR, ITSELF, MEMORY, FEED, NORM = range(5)  # kinds of steps
STEP = np.dtype(
    [
        ("kind", np.int64),
        ("weights", np.int64),  # where matrices lie, int8, and how many bytes
        ("bytes", np.int64),
        ("vectors", np.int64),  # where all else that was learnt lies, float32, and how many numbers
        ("numbers", np.int64),
        ("number", np.int64),  # heads, or the width within a feed-forward block
        ("eps", np.float64),  # of the norm before it; negative: there is none
        ("cos", np.int64),  # RoPE's tables [positions, size]
        ("sin", np.int64),
        ("positions", np.int64),
        ("keys", np.int64),  # a cache: K [groups, slots, size], K [groups, size, slots], V as K
        ("turned", np.int64),
        ("values", np.int64),
        ("groups", np.int64),
        ("slots", np.int64),
        ("size", np.int64),
        ("done", np.int64),  # where it stands how many slots of the second are as in the first
    ]
)
