"""The verdict of a comparison: each branch, and that it says what the table says."""

import random
import re
from dataclasses import replace

import pytest

from demo.compare.rows import table
from demo.compare.verdict import verdict
from moa_core.decoding.tree import AUTO, TreeSettings
from tests.demo.compare.comparisons import row_of

EAGLE = row_of("eagle2", (3.0, 3.0, 3.0), (100, 98, 103))
FAST = row_of("moa-n0", (3.6,) * 3, (120, 118, 125))


@pytest.mark.parametrize(
    ("tau", "rate", "tokens", "speed"),
    [
        (3.6, (120, 118, 125), "MoA N=1 3.60 · EAGLE-2 3.00 (+20 %)",
         "MoA N=1 +20 % against EAGLE-2"),
        (3.6, (110, 103, 112), "(+20 %)", "too close to call"),  # ranges that touch
        (2.97, (90, 88, 92), "(−1.0 %)", "MoA N=1 −10 % against EAGLE-2"),
        (3.001, (100, 99, 101), "(the same)", "too close to call"),
    ],
)  # fmt: skip
def test_moa_against_eagle_2(tau, rate, tokens, speed):
    said = verdict([row_of("moa-n1", (tau,) * 3, rate), EAGLE])
    assert said[0].startswith("tokens per call: ") and said[0].endswith(tokens)
    assert said[1:] == [f"speed: {speed}", "same text ✓"]


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ((80, 78, 82), "faster, 1.50 × plain decoding"),
        ((119, 115, 121), "1.01 × plain decoding, but the runs overlap"),
        ((160, 155, 165), "slower, 0.75 × plain decoding"),
    ],
)
def test_whether_drafting_pays(plain, words):
    found = [FAST, EAGLE, row_of("vanilla", (1,) * 3, plain)]
    assert verdict(found)[2] == f"MoA N=0: {words}"
    assert verdict(found[::2]) == [f"MoA N=0: {words}", "same text ✓"]


def test_whom_to_compare_and_what_is_said_of_it():
    slow = row_of("moa-n3", (4,) * 3, (90, 88, 92))
    assert "MoA N=0" in verdict([slow, FAST, EAGLE])[0]
    tandem, ngram = row_of("tandem", rate=(95, 94, 96)), row_of("ngram", rate=(80, 79, 81))
    assert "MoA N=0 3.60 · Tandem" in verdict([ngram, tandem, FAST])[0]
    assert "Tandem 2.00 · N-gram lookup" in verdict([ngram, tandem])[0]
    for tree in (TreeSettings(6, 3, 12), AUTO):
        assert verdict([replace(FAST, tree=tree), EAGLE])[0].endswith(", trees differ)")
    assert verdict([replace(FAST, same=False), EAGLE])[-1] == "different text ✗"
    assert verdict([replace(FAST, same=None), EAGLE])[-1] == "text not compared"
    assert verdict([]) == verdict([EAGLE]) == []
    assert verdict([row_of(name, None, None) for name in ("moa-n1", "eagle2")]) == []


@pytest.mark.parametrize("seed", range(5))
def test_the_verdict_agrees_with_the_table(seed):
    """Every number it names is the table's, and what it says follows from them."""
    chance = random.Random(seed)
    plain = chance.uniform(50, 150)

    def some(method):
        tau, rate = chance.uniform(1, 6), chance.uniform(50, 250)
        ends = (rate, rate - chance.uniform(0, 20), rate + chance.uniform(0, 20))
        return row_of(method, (tau,) * 3, ends, plain=plain)

    vanilla = row_of("vanilla", (1.0,) * 3, (plain, plain - 1, plain + 1), plain=plain)
    found = [some("moa-n1"), some("eagle2"), vanilla]
    (tau, speed, pays, _), shown = verdict(found), table(found)
    assert re.findall(r" (\d\.\d\d)", tau) == list(shown["τ"][:2])
    for said, column in ((tau, "τ"), (speed, "Tokens/s (min–max)")):
        mine, theirs = (float(cell.split(" ")[0]) for cell in shown[column][:2])
        assert ("(+" in said or " +" in said) <= (mine > theirs)
        assert ("(−" in said or " −" in said) <= (mine < theirs)
    best = max(found[:2], key=lambda row: row.rate.middle)
    times = re.search(r"(\d+\.\d\d) × plain", pays)[1]
    assert f"{times} ×" == shown["Speed-up over plain"][found.index(best)]
