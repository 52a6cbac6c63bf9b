"""The verdict: each branch, and that it says what the table says."""

import random
import re
from dataclasses import replace

import pytest

from demo.compare.rows import table
from demo.compare.verdict import verdict
from moa_core.decoding.tree import AUTO, TreeSettings
from tests.demo.comparisons import row_of

EAGLE = row_of("eagle2", (3.0, 3.0, 3.0), (100, 98, 103))


@pytest.mark.parametrize(
    ("tau", "rate", "words"),
    [
        (3.6, (120, 118, 125),
         "MoA N=1 beats EAGLE-2 in τ (3.60 against 3.00: +20 %) and in tokens/s (120.0 against "
         "100.0: +20 %, more than the spread over 3 repeats)"),
        (3.6, (101, 97, 104),
         "MoA N=1 beats EAGLE-2 in τ (3.60 against 3.00: +20 %) but cannot be told apart from it "
         "in tokens/s (101.0 against 100.0: the ranges over 3 repeats overlap)"),
        (3.6, (90, 88, 92),
         "MoA N=1 beats EAGLE-2 in τ (3.60 against 3.00: +20 %) but trails it in tokens/s (90.0 "
         "against 100.0: −10 %, more than the spread over 3 repeats)"),
        (3.0, (101, 97, 104),
         "MoA N=1 is level with EAGLE-2 in τ (3.00 against 3.00: the same) and "
         "cannot be told apart from it in tokens/s (101.0 against 100.0: the ranges over 3 repeats "
         "overlap)"),
        (3.0, (110, 109, 111),
         "MoA N=1 is level with EAGLE-2 in τ (3.00 against 3.00: the same) but beats it in "
         "tokens/s (110.0 against 100.0: +10 %, more than the spread over 3 repeats)"),
        (2.97, (90, 88, 92),
         "MoA N=1 trails EAGLE-2 in τ (2.97 against 3.00: −1.0 %) and in tokens/s"),
        (2.4, (110, 109, 111),
         "MoA N=1 trails EAGLE-2 in τ (2.40 against 3.00: −20 %) but beats it in tokens/s"),
    ],
)  # fmt: skip
def test_moa_against_eagle_2(tau, rate, words):
    said = verdict([row_of("moa-n1", (tau,) * 3, rate), EAGLE])
    words = words.replace(" τ ", " acceptance length τ ")
    words = words.replace("tokens/s", "tokens/s of the whole run")
    assert said.startswith(f"On this prompt {words}") and said.endswith(".")
    assert "vanilla" not in said


def test_ranges_that_touch_cannot_be_told_apart():
    assert "but cannot be told apart from it in tokens/s" in verdict(
        [row_of("moa-n1", (3.6,) * 3, (110, 103, 112)), EAGLE]
    )


def test_figures_that_read_the_same_are_level():
    near = row_of("moa-n1", (3.001,) * 3, (100.04, 100.04, 100.04))
    other = row_of("eagle2", (3.002,) * 3, (100.01, 100.01, 100.01))
    said = verdict([near, other])
    assert (
        "MoA N=1 is level with EAGLE-2 in acceptance length τ (3.00 against 3.00: the same) and in"
        in said
    )
    assert "(100.0 against 100.0: the same)" in said


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ((80, 78, 82),
         "speculation pays: MoA N=1 has 1.50 × vanilla’s (plain decoding’s) tokens/s."),
        ((119, 115, 121),
         "whether speculation pays is not clear: MoA N=1, the fastest that drafts, has 0.98 to "
         "1.09 × vanilla’s (plain decoding’s) tokens/s, by the repeats’ ranges."),
        ((160, 155, 165),
         "speculation does not pay: MoA N=1, the fastest that drafts, has 0.75 × vanilla’s "
         "(plain decoding’s) tokens/s."),
    ],
)  # fmt: skip
def test_whether_speculation_pays(plain, words):
    found = [
        row_of("moa-n1", (3.6,) * 3, (120, 118, 125), plain=plain[0]),
        row_of("eagle2", (3.0,) * 3, (100, 98, 103), plain=plain[0]),
        row_of("vanilla", (1.0,) * 3, plain, plain=plain[0]),
    ]
    assert verdict(found).endswith(f"spread over 3 repeats); {words}")
    assert verdict(found[::2]) == f"On this prompt {words}"


def test_the_same_speed_as_vanilla():
    found = [
        row_of("moa-n1", (3.6,) * 3, (100, 98, 103), plain=100),
        row_of("vanilla", (1.0,) * 3, (100, 98, 103), plain=100),
    ]
    said = "speculation neither pays nor costs: MoA N=1, the fastest that drafts, has 1.00 ×"
    assert said in verdict(found)


def test_trees_that_differ_are_named():
    other = replace(row_of("moa-n1", (3.6,) * 3, (120, 118, 125)), tree=TreeSettings(6, 3, 12))
    assert "repeats); their draft trees differ, and τ depends on them." in verdict([other, EAGLE])
    assert "trees" not in verdict([replace(other, tree=EAGLE.tree), EAGLE])
    auto = [replace(row, tree=AUTO) for row in (other, EAGLE)]
    assert "their draft trees differ" in verdict(auto)


def test_one_repeat_has_no_spread():
    one = row_of("moa-n1", (3.6,) * 3, (120,) * 3, runs=1)
    said = verdict([one, EAGLE])
    assert "(120.0 against 100.0: +20 %); from one repeat, so how far" in said
    assert "more than" not in said


def test_the_fastest_moa_is_the_one_to_compare():
    slow = row_of("moa-n3", (4.0,) * 3, (90, 88, 92))
    fast = row_of("moa-n0", (3.2,) * 3, (120, 118, 125))
    assert "MoA N=0 beats EAGLE-2" in verdict([slow, fast, EAGLE])
    assert "MoA N=3" not in verdict([slow, fast, EAGLE])


def test_without_eagle_2_the_two_fastest_that_draft_are_compared():
    glide = row_of("glide", (3.0,) * 3, (95, 94, 96))
    ngram = row_of("ngram", (1.5,) * 3, (80, 79, 81))
    fast = row_of("moa-n0", (3.2,) * 3, (120, 118, 125))
    assert "MoA N=0 beats GLIDE" in verdict([ngram, glide, fast])
    assert "GLIDE beats N-gram lookup" in verdict([ngram, glide])


def test_where_there_is_nothing_to_compare():
    assert "No run was finished" in verdict([])
    assert "Only EAGLE-2 has finished runs" in verdict([EAGLE])
    empty = [row_of(name, None, None) for name in ("moa-n1", "eagle2")]
    assert "single token" in verdict(empty)


@pytest.mark.parametrize("seed", range(40))
def test_the_verdict_agrees_with_the_table(seed):
    """Every number it names is the table's, and its verbs follow from them."""
    chance = random.Random(seed)
    plain = chance.uniform(50, 150)
    found = [
        random_row(chance, "moa-n1", plain), random_row(chance, "eagle2", plain),
        row_of("vanilla", (1.0,) * 3, (plain, plain - 1, plain + 1), plain=plain),
    ]  # fmt: skip
    said, shown = verdict(found), table(found)
    pairs = re.findall(r"(\d+\.\d+) against (\d+\.\d+): (\S+)", said)
    speeds = [cell.split(" ")[0] for cell in shown["Tokens/s (min–max)"]]
    assert [pair[:2] for pair in pairs] == [tuple(shown["τ"][:2]), tuple(speeds[:2])]
    for mine, theirs, tail in pairs:
        assert (tail[0] == "+") <= (float(mine) > float(theirs))
        assert (tail[0] == "−") <= (float(mine) < float(theirs))
        assert tail[0] in "+−" or tail == "the"  # the same, or: the ranges overlap
    best = max(found[:2], key=lambda row: row.rate.middle)
    low, times = re.findall(r"(?:(\d+\.\d\d) to )?(\d+\.\d\d) × vanilla", said)[0]
    if low:  # nobody knows which is faster: a range alone is said
        assert float(low) <= 1 <= float(times) and "is not clear" in said
        return
    assert f"{times} ×" == shown["Speed-up over vanilla"][found.index(best)]
    assert (" pays: " in said) <= (float(times) > 1)
    assert ("does not pay" in said) <= (float(times) < 1)


def random_row(chance, method, plain):
    tau, rate = chance.choice([2.5, 3.0, chance.uniform(1, 6)]), chance.uniform(50, 250)
    spread = (rate, rate - chance.uniform(0, 20), rate + chance.uniform(0, 20))
    return row_of(method, (tau,) * 3, spread, plain=plain)
