"""What Python calls, compiled by numba for the processor it runs on.

Between the products of a small drafter an operator of torch takes longer to call than to do; here
several layers are one call. Weights are in eight bits, which is half of what must come from memory
in bfloat16.

Numba compiles a kernel anew when its own file changes, not when that of what it calls does. So a
change there changes ELSEWHERE here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moa_core.native.compiled import NOWHERE, Bytes, F, Floats, Ints, Mask, exp, kernel, piece
from moa_core.native.layers import feed, keys_values, normed, over_itself, over_layers, over_memory
from moa_core.native.machine import array_at
from moa_core.native.products import ROWS, TILE, linear
from moa_core.native.steps import FEED, ITSELF, LINEAR, NORM

__all__ = ["ELSEWHERE", "ROWS", "TILE", "best", "chain", "remember"]
ELSEWHERE = "6717f30a"  # of the files that a test names, which says what it is to be
A_BYTE, A_FLOAT, A_NUMBER = np.int8(0), np.float32(0), np.int64(0)  # what lies at an address
SCAN = 128  # logits whose largest is looked at first


@piece
def matrices(step: Any) -> Bytes:
    """A step's weights."""
    found: Bytes = array_at(step.weights, (step.bytes,), A_BYTE)
    return found


@piece
def numbers(step: Any) -> Floats:
    """All else that it has learnt."""
    found: Floats = array_at(step.vectors, (step.numbers,), A_FLOAT)
    return found


@piece
def rows_of(table: int, step: Any, position: int, count: int) -> Floats:
    """RoPE at so many positions from one on: [count, size]."""
    found: Floats = array_at(table, (step.positions, step.size), A_FLOAT)
    return found[position : position + count]


@piece
def cached(address: int, step: Any) -> Floats:
    """K or V of a step's cache [groups, slots, size]."""
    found: Floats = array_at(address, (step.groups, step.slots, step.size), A_FLOAT)
    return found


@kernel
def chain(
    steps: Any, hidden: Floats, start: int, position: int, memory: int, text: bool, seen: Mask
) -> Floats:
    """Layers one after the other: hidden [n, in] -> [n, out].

    steps     [k] of `steps.STEP`
    start     where the rows go in caches of their own
    position  of the first row
    memory    slots of a memory that all rows see
    text      rows follow one another in the text, and else are nodes at one position
    seen      see `attention`
    """
    n = hidden.shape[0]
    for place in range(steps.shape[0]):
        step = steps[place]
        weights, vectors = matrices(step), numbers(step)
        if step.kind == LINEAR:
            hidden = linear(hidden, weights, vectors)
        elif step.kind == FEED:
            hidden = feed(hidden, weights, vectors, step.number, step.eps)
        elif step.kind == NORM:
            hidden = normed(hidden, vectors, step.eps)
        else:
            count = n if text else 1
            cos, sin = (
                rows_of(step.cos, step, position, count), rows_of(step.sin, step, position, count),
            )  # fmt: skip
            keys, values = cached(step.keys, step), cached(step.values, step)
            turned = array_at(step.turned, (step.groups, step.size, step.slots), A_FLOAT)
            done = array_at(step.done, (1,), A_NUMBER)
            if step.kind == ITSELF:
                hidden = over_itself(
                    hidden, weights, vectors, step.number, step.eps, cos, sin,
                    keys, turned, values, start, done[0], text, seen,
                )  # fmt: skip
                done[0] = start + n
            else:
                hidden = over_memory(
                    hidden, weights, vectors, step.number, step.eps, cos, sin,
                    keys, turned, values, memory, done[0],
                )  # fmt: skip
                done[0] = memory
    return hidden


@kernel
def remember(steps: Any, seen: Floats, start: int, stop: int) -> Floats:
    """LSA of tokens, its matrix to [n, E], and what CA will ask of it [2, G, n, size].

    steps        [4] of `steps.STEP`: attention over layers, feed-forward, the matrix, K and V
    seen         [L, 2, G, slots, d] K and V of all layers
    start, stop  slots of the tokens, which are their positions
    """
    lsa, fed, joined, asked = steps[0], steps[1], steps[2], steps[3]
    layers, _, groups, _, size = seen.shape
    n = stop - start
    tokens = np.empty((n, layers, 2 * groups * size), np.float32)
    for token in range(n):
        for layer in range(layers):
            row = tokens[token, layer]
            for g in range(groups):  # as `cache.token_vectors`: heads outermost
                for half in range(2):
                    at = (2 * g + half) * size
                    for e in range(size):
                        row[at + e] = seen[layer, half, g, start + token, e]
    found = over_layers(
        tokens, matrices(lsa), numbers(lsa), lsa.number, lsa.eps,
        rows_of(lsa.cos, lsa, 0, layers), rows_of(lsa.sin, lsa, 0, layers),
    )  # fmt: skip
    found = feed(found, matrices(fed), numbers(fed), fed.number, fed.eps)
    memory = linear(found, matrices(joined), numbers(joined))
    return keys_values(
        memory, matrices(asked), numbers(asked), asked.number, asked.eps,
        rows_of(asked.cos, asked, start, n), rows_of(asked.sin, asked, start, n),
    )  # fmt: skip


@kernel
def best(logits: Floats, count: int) -> tuple[Floats, Ints]:
    """Log-probabilities and ids [n, count] of the most probable tokens of [n, V], best first."""
    n, size = logits.shape
    values = np.full((n, count), 2 * NOWHERE, np.float32)
    ids = np.zeros((n, count), np.int64)
    for r in range(n):
        row, found, names = logits[r], values[r], ids[r]
        for first in range(0, size, SCAN):
            part, top = row[first : min(first + SCAN, size)], NOWHERE
            for j in range(part.shape[0]):
                top = max(top, part[j])
            if top > found[count - 1]:
                for j in range(part.shape[0]):
                    if part[j] > found[count - 1]:
                        place = count - 1
                        while place > 0 and found[place - 1] < part[j]:
                            found[place], names[place] = found[place - 1], names[place - 1]
                            place -= 1
                        found[place], names[place] = part[j], first + j
        total = F(0)
        for j in range(size):
            total += exp(row[j] - found[0])
        whole = found[0] + F(np.log(total))
        for place in range(count):
            found[place] -= whole
    return values, ids
