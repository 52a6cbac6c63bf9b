"""What layers consist of: norms, RoPE, attention through caches and over layers, feed-forward."""

from __future__ import annotations

import numpy as np

from moa_core.native.compiled import NOWHERE, Bytes, F, Floats, Mask, exp, piece
from moa_core.native.products import product

BLOCK = 256  # slots whose scores are made at once


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
