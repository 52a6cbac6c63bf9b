"""Packing loses no text."""

import random

import pytest

from moa_core.train.packing import PADDING, pack


@pytest.mark.parametrize("length", [7, 64, 256])
def test_packing_keeps_every_token_in_order(length):
    rng = random.Random(length)
    sizes = [rng.randint(1, 120) for _ in range(1_500)] + [1_000]
    encoded = [([n * 1_000 + i for i in range(size)], [i % 3 == 0 for i in range(size)])
               for n, size in enumerate(sizes)]  # fmt: skip
    kept: dict[int, tuple[list[int], list[bool]]] = {n: ([], []) for n in range(len(sizes))}
    rows = list(pack(encoded, length, pad_id=-7))
    for row in rows:
        assert row.shape == (3, length)
        ids, mask, segment = row
        padding = segment == PADDING
        assert (ids[padding] == -7).all() and not mask[padding].any()
        for token, on, number in row.T.tolist():
            if number != PADDING:
                kept[number][0].append(token)
                kept[number][1].append(on)
    assert [kept[n] for n in range(len(sizes))] == encoded
    assert sum((row[2] == PADDING).sum() for row in rows[:-1]) < 0.03 * sum(sizes)
