"""Products of a few rows and a matrix in eight bits, which is read once for four rows.

Matrices lie as `packing` lays them. Sums are those of whole numbers where the processor has an
instruction for them, and else float32.
"""

from __future__ import annotations

import numpy as np

from moa_core.native.compiled import LITTLE, Bytes, F, Floats, Words, piece
from moa_core.native.machine import COLUMNS, available, dots

WHOLE = available()  # whether products are sums of whole numbers
TILE = COLUMNS if WHOLE else 256  # outputs of a matrix that lie together
ROWS = 32 if WHOLE else 12  # of an input: with more, torch's products win, or nearly


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
def linear(x: Floats, weights: Bytes, ends: Floats) -> Floats:
    """x [n, in] through a matrix: [n, out]; ends: see `product`."""
    y = np.empty((x.shape[0], ends.shape[0] // 2), np.float32)
    product(x, x.shape[1], weights, 0, ends, y)
    return y
