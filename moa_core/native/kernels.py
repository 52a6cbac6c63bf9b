"""What a drafted level consists of, compiled by numba for the processor it runs on.

Between the products of a small drafter an operator of torch takes longer to call than to do; here
several layers are one call. Matrices lie as `packing` lays them, in eight bits, which is half of
what must come from memory in bfloat16, and are read once for four rows. Sums are float32, or those
of whole numbers where the processor has an instruction for them.

This is one file, though long: numba compiles a function anew when its own file changes, not when
that of one that it calls does. So a change in `machine` or `steps` changes ELSEWHERE here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moa_core.native.machine import COLUMNS, array_at, available, dots
from moa_core.native.steps import FEED, ITSELF, LINEAR, NORM

ELSEWHERE = "70e9fce5"  # of `machine` and `steps`: a test says what it is to be
A_BYTE, A_FLOAT, A_NUMBER = np.int8(0), np.float32(0), np.int64(0)  # what lies at an address
F = np.float32
WHOLE = available()  # whether products are sums of whole numbers
TILE = COLUMNS if WHOLE else 256  # outputs of a matrix that lie together
ROWS = 32 if WHOLE else 12  # of an input: with more, torch's products win, or nearly
BLOCK = 256  # slots whose scores are made at once
SCAN = 128  # logits whose largest is looked at first
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
    "cache": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
INNER = {**OPTIONS, "no_cpython_wrapper": True}


def kernel(function: Function) -> Function:
    """A kernel that Python calls."""
    compiled: Function = njit(**OPTIONS)(function)
    return compiled


def piece(function: Function) -> Function:
    """What kernels call."""
    compiled: Function = njit(**INNER)(function)
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


@piece
def product(x: Floats, inner: int, weights: Bytes, at: int, ends: Floats, y: Floats) -> int:
    """y [n, outer] = x [n, inner] times the matrix that begins at `at`; returns where it ends.

    ends  the scale of each output, then the bias of each
    """
    if WHOLE:
        return _product_of_whole(x, inner, weights, at, ends, y)
    return _product(x, inner, weights, at, ends, y)


@piece
def _product_of_whole(
    x: Floats, inner: int, weights: Bytes, at: int, ends: Floats, y: Floats
) -> int:
    """As `product`, by sums of whole numbers."""
    n, outer = x.shape[0], ends.shape[0] // 2
    rows, units = np.empty((n + 3, inner), np.int16), np.empty(n, np.float32)
    _round(x, inner, rows, units)
    sums = np.empty((4, TILE), np.int32)
    for first in range(0, outer, TILE):
        width = min(TILE, outer - first)
        scales, bias = ends[first : first + width], ends[outer + first : outer + first + width]
        for r in range(0, n, 4):
            left = min(n - r, 4)
            if left > 2:
                dots(rows, r, 4, weights, at, TILE, inner, sums)
            elif left == 2:
                dots(rows, r, 2, weights, at, TILE, inner, sums)
            else:
                dots(rows, r, 1, weights, at, TILE, inner, sums)
            for i in range(left):
                out, part, unit = y[r + i, first : first + width], sums[i], units[r + i]
                for j in range(width):
                    out[j] = F(part[j]) * (unit * scales[j]) + bias[j]
        at += inner * TILE
    return at


@piece
def _round(x: Floats, inner: int, rows: Words, units: Floats) -> None:
    """x [n, inner] as whole numbers, rows [n, inner] times units [n]. They have 16 bits or so many
    that no sum overflows, 13 for 4,096 of them: rounding weights to eight takes far more away."""
    most = F(min(32767, 2**24 // inner))
    for r in range(x.shape[0]):
        row, whole, largest = x[r], rows[r], LITTLE
        for k in range(inner):
            largest = max(largest, abs(row[k]))
        units[r], times = largest / most, most / largest
        for k in range(inner):  # what is converted is positive, so that cutting off rounds
            whole[k] = np.int32(row[k] * times + F(32768.5)) - np.int32(32768)


@piece
def _product(x: Floats, inner: int, weights: Bytes, at: int, ends: Floats, y: Floats) -> int:
    """As `product`, for processors without an instruction for it."""
    n, outer = x.shape[0], ends.shape[0] // 2
    # Sums of their own: rows of y may lie a multiple of 4 KB apart, which makes stores wait.
    sums = np.empty((4, TILE + 16), np.float32)
    for first in range(0, outer, TILE):
        width = min(TILE, outer - first)
        held = min(TILE, -(-(outer - first) // COLUMNS) * COLUMNS)
        w = weights[at : at + inner * held].reshape(inner, held)
        scales, bias = ends[first : first + width], ends[outer + first : outer + first + width]
        at += inner * held
        for r in range(0, n, 4):
            left = min(n - r, 4)
            sums[:] = 0
            if left > 2:  # a third row takes no longer with a fourth
                _four(x[r], x[r + 1], x[r + 2], x[min(r + 3, n - 1)], w, sums)
            elif left == 2:
                _two(x[r], x[r + 1], w, sums)
            else:
                _one(x[r], w, sums[0])
            for i in range(left):
                out, part = y[r + i, first : first + width], sums[i]
                for j in range(width):
                    out[j] = part[j] * scales[j] + bias[j]
    return at


@piece
def _four(xa: Floats, xb: Floats, xc: Floats, xd: Floats, w: Bytes, sums: Floats) -> None:
    """sums [4, width] += four rows [inner] times w [inner, width], which is read once"""
    ya, yb, yc, yd = sums[0], sums[1], sums[2], sums[3]
    for k in range(0, w.shape[0], 4):
        a0, a1, a2, a3 = xa[k], xa[k + 1], xa[k + 2], xa[k + 3]
        b0, b1, b2, b3 = xb[k], xb[k + 1], xb[k + 2], xb[k + 3]
        c0, c1, c2, c3 = xc[k], xc[k + 1], xc[k + 2], xc[k + 3]
        d0, d1, d2, d3 = xd[k], xd[k + 1], xd[k + 2], xd[k + 3]
        for j in range(w.shape[1]):
            w0, w1, w2, w3 = F(w[k, j]), F(w[k + 1, j]), F(w[k + 2, j]), F(w[k + 3, j])
            ya[j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            yb[j] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
            yc[j] += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3
            yd[j] += d0 * w0 + d1 * w1 + d2 * w2 + d3 * w3


@piece
def _two(xa: Floats, xb: Floats, w: Bytes, sums: Floats) -> None:
    """As `_four`."""
    ya, yb = sums[0], sums[1]
    for k in range(0, w.shape[0], 4):
        a0, a1, a2, a3 = xa[k], xa[k + 1], xa[k + 2], xa[k + 3]
        b0, b1, b2, b3 = xb[k], xb[k + 1], xb[k + 2], xb[k + 3]
        for j in range(w.shape[1]):
            w0, w1, w2, w3 = F(w[k, j]), F(w[k + 1, j]), F(w[k + 2, j]), F(w[k + 3, j])
            ya[j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            yb[j] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3


@piece
def _one(xa: Floats, w: Bytes, ya: Floats) -> None:
    """As `_four`."""
    for k in range(0, w.shape[0], 4):
        a0, a1, a2, a3 = xa[k], xa[k + 1], xa[k + 2], xa[k + 3]
        for j in range(w.shape[1]):
            w0, w1, w2, w3 = F(w[k, j]), F(w[k + 1, j]), F(w[k + 2, j]), F(w[k + 3, j])
            ya[j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3


@piece
def normed(x: Floats, weight: Floats, eps: float) -> Floats:
    """x [n, width] over its root mean square, times the weights; x itself if eps is negative."""
    if eps < 0:
        return x
    y = np.empty_like(x)
    width = weight.shape[0]
    for r in range(x.shape[0]):
        row, out, total = x[r], y[r], F(0)
        for j in range(width):
            total += row[j] * row[j]
        scale = F(1) / np.sqrt(total / F(width) + F(eps))
        for j in range(width):
            out[j] = row[j] * scale * weight[j]
    return y


@piece
def rotate(x: Floats, heads: int, size: int, cos: Floats, sin: Floats) -> None:
    """Turn the first heads of each row of x [n, ..] by its position, as `layers.rotate` does.

    cos, sin  [n or 1, size]
    """
    half = size // 2
    for r in range(x.shape[0]):
        c, s = cos[min(r, cos.shape[0] - 1)], sin[min(r, sin.shape[0] - 1)]
        for h in range(heads):
            low, high = x[r, h * size : h * size + half], x[r, h * size + half : (h + 1) * size]
            for e in range(half):
                a, b = low[e], high[e]
                low[e] = a * c[e] + b * s[e]
                high[e] = b * c[half + e] + a * s[half + e]


@piece
def turn(keys: Floats, turned: Floats, start: int, stop: int) -> None:
    """K [G, slots, d] the other way round, [G, d, slots], for these slots."""
    for g in range(keys.shape[0]):
        for s in range(start, stop):
            row = keys[g, s]
            for e in range(row.shape[0]):
                turned[g, e, s] = row[e]


@piece
def attention(
    queries: Floats, heads: int, turned: Floats, values: Floats, count: int, text: bool, seen: Mask
) -> Floats:
    """Rows of queries [n, heads * d] attend to `count` slots: [n, heads * d].

    turned  K [G, d, slots]; a score is then made for many slots at once
    values  [G, slots, d]
    text    the last n slots are the rows' own, and none sees those after its own
    seen    [n, m] bool: of the last m slots a row sees only these
    """
    n, groups, size = queries.shape[0], turned.shape[0], turned.shape[1]
    each, known = heads // groups, count - seen.shape[1]
    mixed = np.zeros((n, heads * size), np.float32)
    scores = np.empty(count, np.float32)
    scale = F(1) / np.sqrt(F(size))
    for g in range(groups):
        k, v = turned[g], values[g]
        for r in range(n):
            last = count - n + r + 1 if text else count
            for h in range(g * each, (g + 1) * each):
                q, out = queries[r, h * size : (h + 1) * size], mixed[r, h * size : (h + 1) * size]
                _score(q, k, last, scale, scores)
                for s in range(seen.shape[1]):
                    if not seen[r, s]:
                        scores[known + s] = NOWHERE
                _mix(scores, v, last, out)
    return mixed


@piece
def _score(q: Floats, k: Floats, count: int, scale: np.float32, scores: Floats) -> None:
    """scores [count] = scale * q [d] times k [d, slots]"""
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        part = scores[first:last]
        part[:] = 0
        for e in range(0, q.shape[0], 4):
            q0, q1 = q[e] * scale, q[e + 1] * scale
            q2, q3 = q[e + 2] * scale, q[e + 3] * scale
            k0, k1 = k[e, first:last], k[e + 1, first:last]
            k2, k3 = k[e + 2, first:last], k[e + 3, first:last]
            for s in range(part.shape[0]):
                part[s] += q0 * k0[s] + q1 * k1[s] + q2 * k2[s] + q3 * k3[s]


@piece
def _mix(scores: Floats, v: Floats, count: int, out: Floats) -> None:
    """out [d] = softmax of the scores [count] times v [slots, d]"""
    top, total = NOWHERE, F(0)
    for s in range(count):
        top = max(top, scores[s])
    for s in range(count):
        scores[s] = exp(scores[s] - top)
        total += scores[s]
    eights = count - count % 8
    for s in range(0, eights, 8):
        p0, p1, p2, p3 = scores[s], scores[s + 1], scores[s + 2], scores[s + 3]
        p4, p5, p6, p7 = scores[s + 4], scores[s + 5], scores[s + 6], scores[s + 7]
        v0, v1, v2, v3 = v[s], v[s + 1], v[s + 2], v[s + 3]
        v4, v5, v6, v7 = v[s + 4], v[s + 5], v[s + 6], v[s + 7]
        for e in range(out.shape[0]):
            out[e] += (p0 * v0[e] + p1 * v1[e] + p2 * v2[e] + p3 * v3[e]) + (
                p4 * v4[e] + p5 * v5[e] + p6 * v6[e] + p7 * v7[e]
            )
    for s in range(eights, count):
        p, row = scores[s], v[s]
        for e in range(out.shape[0]):
            out[e] += p * row[e]
    for e in range(out.shape[0]):
        out[e] /= total


@piece
def over_itself(
    hidden: Floats,
    weights: Bytes, vectors: Floats, heads: int, eps: float,
    cos: Floats, sin: Floats,
    keys: Floats, turned: Floats, values: Floats, start: int, done: int, text: bool, seen: Mask,
) -> Floats:  # fmt: skip
    """Self-attention through a cache: hidden [n, E] plus what it finds.

    vectors     the norm's, ends of Q, K and V, ends of the output: see `product`
    start       slots from here on are written
    done        slots up to here are in `turned` already
    text, seen  see `attention`
    """
    n, width = hidden.shape
    groups, size = turned.shape[0], turned.shape[1]
    joined, past = (heads + 2 * groups) * size, heads * size
    rows = np.empty((n, joined), np.float32)
    x = normed(hidden, vectors[:width], eps)
    at = product(x, width, weights, 0, vectors[width : width + 2 * joined], rows)
    rotate(rows, heads + groups, size, cos, sin)
    for r in range(n):
        for g in range(groups):
            k = rows[r, past + g * size : past + (g + 1) * size]
            v = rows[r, past + (groups + g) * size : past + (groups + g + 1) * size]
            keys[g, start + r, :] = k
            values[g, start + r, :] = v
    turn(keys, turned, min(done, start), start + n)
    mixed = attention(rows, heads, turned, values, start + n, text, seen)
    return _out(hidden, mixed, weights, at, vectors[width + 2 * joined :])


@piece
def over_memory(
    hidden: Floats,
    weights: Bytes, vectors: Floats, heads: int, eps: float,
    cos: Floats, sin: Floats,
    keys: Floats, turned: Floats, values: Floats, count: int, done: int,
) -> Floats:  # fmt: skip
    """Cross-attention to the first `count` slots of a cache; else as `over_itself`.

    vectors  the norm's, ends of Q, ends of the output
    """
    n, width = hidden.shape
    size = turned.shape[1]
    queries = np.empty((n, heads * size), np.float32)
    x = normed(hidden, vectors[:width], eps)
    at = product(x, width, weights, 0, vectors[width : width + 2 * heads * size], queries)
    rotate(queries, heads, size, cos, sin)
    turn(keys, turned, done, count)
    mixed = attention(queries, heads, turned, values, count, False, np.empty((0, 0), np.bool_))
    return _out(hidden, mixed, weights, at, vectors[width + 2 * heads * size :])


@piece
def over_layers(
    tokens: Floats,
    weights: Bytes,
    vectors: Floats,
    heads: int,
    eps: float,
    cos: Floats,
    sin: Floats,
) -> Floats:
    """LSA: the last layer of each token looks at all its layers; [n, W] plus what it finds.

    tokens    [n, L, W] K and V of all layers
    vectors   the norm's, ends of Q, of K and V, of the output
    cos, sin  [L, size], a layer's index as its position
    """
    n, layers, width = tokens.shape
    size = cos.shape[1]
    wide = heads * size
    narrow = ((vectors.shape[0] - 3 * width) // 2 - wide) // 2
    groups = narrow // size
    rows = tokens.reshape(n * layers, width)
    last = np.ascontiguousarray(tokens[:, layers - 1])
    queries, found = np.empty((n, wide), np.float32), np.empty((n * layers, 2 * narrow), np.float32)
    one, other = vectors[width : width + 2 * wide], vectors[width + 2 * wide : -2 * width]
    at = product(normed(last, vectors[:width], eps), width, weights, 0, one, queries)
    at = product(normed(rows, vectors[:width], eps), width, weights, at, other, found)
    rotate(queries, heads, size, cos[layers - 1 :], sin[layers - 1 :])
    mixed = np.empty((n, wide), np.float32)
    turned = np.empty((groups, size, layers), np.float32)
    values = np.empty((groups, layers, size), np.float32)
    for token in range(n):
        own = found[token * layers : (token + 1) * layers]
        rotate(own, groups, size, cos, sin)
        for g in range(groups):
            for s in range(layers):
                for e in range(size):
                    turned[g, e, s] = own[s, g * size + e]
                    values[g, s, e] = own[s, narrow + g * size + e]
        everything = np.empty((0, 0), np.bool_)
        mixed[token : token + 1] = attention(
            queries[token : token + 1], heads, turned, values, layers, False, everything
        )
    return _out(last, mixed, weights, at, vectors[-2 * width :])


@piece
def keys_values(
    x: Floats, weights: Bytes, vectors: Floats, size: int, eps: float, cos: Floats, sin: Floats
) -> Floats:
    """K (rotated) and V of x [n, in]: [2, G, n, size].

    vectors   the norm's, ends of K and V
    cos, sin  [n, size]
    """
    n, width = x.shape
    both = (vectors.shape[0] - width) // 2
    groups = both // (2 * size)
    rows, found = np.empty((n, both), np.float32), np.empty((2, groups, n, size), np.float32)
    product(normed(x, vectors[:width], eps), width, weights, 0, vectors[width:], rows)
    rotate(rows, groups, size, cos, sin)
    for r in range(n):
        for half in range(2):
            for g in range(groups):
                at = (half * groups + g) * size
                found[half, g, r] = rows[r, at : at + size]
    return found


@piece
def _out(hidden: Floats, mixed: Floats, weights: Bytes, at: int, ends: Floats) -> Floats:
    """hidden [n, E] + what the output matrix makes of `mixed`"""
    n, width = hidden.shape
    y = np.empty((n, width), np.float32)
    product(mixed, mixed.shape[1], weights, at, ends, y)
    for r in range(n):
        row, more = y[r], hidden[r]
        for j in range(width):
            row[j] += more[j]
    return y


@piece
def feed(hidden: Floats, weights: Bytes, vectors: Floats, inner: int, eps: float) -> Floats:
    """The gated feed-forward block: hidden [n, E] plus what it makes of it.

    vectors  the norm's, ends of gate and up, ends of down
    inner    its width, a multiple of 4
    """
    n, width = hidden.shape
    both, act = np.empty((n, 2 * inner), np.float32), np.empty((n, inner), np.float32)
    ends = vectors[width : width + 4 * inner]
    at = product(normed(hidden, vectors[:width], eps), width, weights, 0, ends, both)
    for r in range(n):
        gate, up, out = both[r, :inner], both[r, inner:], act[r]
        for j in range(inner):
            out[j] = gate[j] * up[j] / (F(1) + exp(-gate[j]))
    return _out(hidden, act, weights, at, vectors[width + 4 * inner :])


@piece
def linear(x: Floats, weights: Bytes, ends: Floats) -> Floats:
    """x [n, in] through a matrix: [n, out]; ends: see `product`."""
    y = np.empty((x.shape[0], ends.shape[0] // 2), np.float32)
    product(x, x.shape[1], weights, 0, ends, y)
    return y


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
