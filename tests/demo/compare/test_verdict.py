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


@pytest.mark.parametrize(
    ("tau", "rate", "words"),
    [
        (3.6, (120, 118, 125), "MoA N=1 3.60, EAGLE-2 3.00 (+20 %). Speed: MoA N=1 120.0 tokens/s, "
         "EAGLE-2 100.0 (+20 %)."),
        (3.6, (101, 97, 104), "(+20 %). Speed: too close to call (MoA N=1 101.0 tokens/s, EAGLE-2 "
         "100.0; the repeats vary more than that)."),
        (3.6, (110, 103, 112), "Speed: too close to call"),  # ranges that touch
        (2.97, (90, 88, 92), "(−1.0 %). Speed: MoA N=1 90.0 tokens/s, EAGLE-2 100.0 (−10 %)."),
        (3.001, (100.04, 100.04, 100.04), "(the same). Speed: MoA N=1 and EAGLE-2 are level, at "
         "100.0 tokens/s."),
    ],
)  # fmt: skip
def test_moa_against_eagle_2(tau, rate, words):
    said = verdict([row_of("moa-n1", (tau,) * 3, rate), EAGLE])
    assert (said.startswith("Acceptance length τ: MoA N=1 ") and said.endswith(words)) or (
        words in said and len(words) < 30
    )
    assert "plain" not in said


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ((80, 78, 82), "speculation pays, MoA N=1 is 1.50 × plain decoding."),
        ((119, 115, 121), "too close to call. MoA N=1 was 1.01 × plain decoding, but the runs "
         "varied more than that."),
        ((160, 155, 165), "speculation does not pay, MoA N=1 is 0.75 × plain decoding."),
        ((120, 118, 125), "MoA N=1 is as fast."),
    ],
)  # fmt: skip
def test_whether_speculation_pays(plain, words):
    found = [
        row_of("moa-n1", (3.6,) * 3, (120, 118, 125)),
        EAGLE,
        row_of("vanilla", (1,) * 3, plain),
    ]
    assert verdict(found).endswith(f"Against plain decoding: {words}")
    assert verdict(found[::2]) == f"Against plain decoding: {words}"


def test_whom_to_compare_and_what_is_said_of_it():
    slow, fast = (
        row_of("moa-n3", (4,) * 3, (90, 88, 92)),
        row_of("moa-n0", (3,) * 3, (120, 118, 125)),
    )
    assert "MoA N=0" in verdict([slow, fast, EAGLE]) and "N=3" not in verdict([slow, fast, EAGLE])
    glide, ngram = row_of("glide", rate=(95, 94, 96)), row_of("ngram", rate=(80, 79, 81))
    assert "MoA N=0 3.00, GLIDE" in verdict([ngram, glide, fast])
    assert "GLIDE 2.00, N-gram lookup" in verdict([ngram, glide])
    other = replace(fast, tree=TreeSettings(6, 3, 12))
    assert "Their draft trees differ, and τ depends on the tree." in verdict([other, EAGLE])
    assert "trees" not in verdict([replace(other, tree=EAGLE.tree), EAGLE])
    assert "trees differ" in verdict([replace(one, tree=AUTO) for one in (other, EAGLE)])
    assert "Each method ran once" in verdict([row_of("moa-n1", runs=1), EAGLE])
    assert "No run was finished" in verdict([])
    assert "Only EAGLE-2 has finished runs" in verdict([EAGLE])
    assert "single token" in verdict([row_of(name, None, None) for name in ("moa-n1", "eagle2")])


@pytest.mark.parametrize("seed", range(20))
def test_the_verdict_agrees_with_the_table(seed):
    """Every number it names is the table's, and what it says follows from them."""
    chance = random.Random(seed)
    plain = chance.uniform(50, 150)

    def some(method):
        tau, rate = chance.choice([2.5, chance.uniform(1, 6)]), chance.uniform(50, 250)
        ends = (rate, rate - chance.uniform(0, 20), rate + chance.uniform(0, 20))
        return row_of(method, (tau,) * 3, ends, plain=plain)

    vanilla = row_of("vanilla", (1.0,) * 3, (plain, plain - 1, plain + 1), plain=plain)
    found = [some("moa-n1"), some("eagle2"), vanilla]
    said, shown = verdict(found), table(found)
    speeds = [cell.split(" ")[0] for cell in shown["Tokens/s (min–max)"]]
    tau, speed, *_ = re.split(r"Speed: |Against plain", said)
    assert re.findall(r" (\d\.\d\d)", tau)[:2] == list(shown["τ"][:2])
    assert re.findall(r" (\d+\.\d) ?", speed)[:2] == speeds[:2]
    for part, (mine, theirs) in ((tau, shown["τ"][:2]), (speed, speeds[:2])):
        assert ("(+" in part) <= (float(mine) > float(theirs))
        assert ("(−" in part) <= (float(mine) < float(theirs))
    best = max(found[:2], key=lambda row: row.rate.middle)
    times = re.search(r"(\d+\.\d\d) × plain", said)[1]
    assert f"{times} ×" == shown["Speed-up over plain"][found.index(best)]
    assert ("speculation pays" in said) <= (float(times) > 1)
