"""The verdict of a comparison: each branch."""

from dataclasses import replace

import pytest

from demo.common.figures import Spread
from demo.compare.bench import told, verdict
from moa_core.decoding.tree import AUTO
from tests.demo.compare.comparisons import row_of

EAGLE = row_of("eagle2", (3.0, 3.0, 3.0), (100, 98, 103))
FAST_EAGLE = row_of("eagle2", (3.0,) * 3, (120, 118, 125))
FAST = row_of("moa-n0", (3.6,) * 3, (120, 118, 125))


def call(row):
    return f"{sum(row.spent.values()):.0f} ms"


@pytest.mark.parametrize(
    ("plain", "headline"),
    [
        ((80, 78, 82), "MoA N=0 was the fastest, at 1.50 × plain decoding’s speed."),
        ((119, 115, 121),
         "No drafter was clearly faster: MoA N=0 1.01 × plain decoding’s speed."),
        ((160, 155, 165),
         "Plain decoding was the fastest; MoA N=0 reached 0.75 × plain decoding’s speed."),
        (None, "MoA N=0 was the fastest, at 1.20 × EAGLE-2’s speed."),
    ],
)  # fmt: skip
def test_the_headline_names_who_was_fastest_and_moa(plain, headline):
    found = [FAST, EAGLE, *([row_of("vanilla", (1,) * 3, plain)] if plain else [])]
    *names, last = [f"{row.label} {row.trace.target_calls} of {call(row)}" for row in found]
    calls = f"Model calls: {', '.join(names)} and {last}"
    assert verdict(found) == [headline, "Same text ✓", calls]
    shown = f'<p class="conclusion">{headline}</p><span>Same text ✓</span> <span>{calls}</span>'
    assert told(verdict(found)) == shown


def test_what_is_close_and_what_is_not_known_is_said():
    close = row_of("moa-n0", (3.6,) * 3, (104, 102, 108))  # its range touches EAGLE-2's
    level = "MoA N=0 reached 1.30 × and EAGLE-2 1.25 × plain decoding’s speed"
    assert verdict([close, EAGLE])[0] == "No clear winner: MoA N=0 1.04 × EAGLE-2’s speed."
    plain = row_of("vanilla", (1,) * 3, (80, 79, 81))
    said = verdict([close, EAGLE, plain])
    assert said[0] == f"{level}; which of them is faster is too close to tell." and len(said) == 3
    plain = row_of("vanilla", (1,) * 3, (100, 95, 101))  # touches the second's range alone
    wide = row_of("eagle2", (3.0,) * 3, (103, 100, 106))
    unsure = "Runs of EAGLE-2 overlap plain’s: more repeats may tell"
    assert verdict([close, wide, plain])[3] == unsure
    # The fastest touches plain decoding's range; the other, which it touches too, does not.
    near = row_of("moa-n0", (3.6,) * 3, (103, 102, 104))
    assert "too close to tell" in verdict([near, wide, plain])[0]
    behind = replace(FAST, rate=wide.rate)
    assert verdict([behind, FAST_EAGLE])[0] == "EAGLE-2 was the fastest, at 1.17 × MoA N=0’s speed."
    plain = row_of("vanilla", (1,) * 3, (50, 49, 51))
    also = "EAGLE-2 was the fastest, at 2.40 × plain decoding’s speed; MoA N=0 reached 2.06 ×."
    assert verdict([behind, FAST_EAGLE, plain])[0] == also
    assert verdict([replace(row, runs=1) for row in (FAST, EAGLE)])[3].startswith("One run each: ")
    assert verdict([replace(FAST, same=False), EAGLE])[1] == "Different text ✗"
    assert verdict([replace(FAST, same=None), EAGLE])[1] == "Text not compared"
    assert verdict([]) == verdict([EAGLE]) == []
    assert verdict([row_of(name, None, None) for name in ("moa-n1", "eagle2")]) == []
    assert told([]) == ""


def test_on_a_busy_machine_only_what_its_runs_still_show_is_said_of_speed():
    uneven = row_of("vanilla", (1,) * 3, (80, 59, 122))
    speed, same, calls, busy = verdict([FAST, EAGLE, uneven])
    assert calls.startswith("Model calls: MoA N=0 ") and same == "Same text ✓"
    assert " ms" not in calls
    every = "Every drafter was faster than plain in its median run, but"
    assert speed == f"{every} this machine was too busy to be sure."
    assert busy == "Plain’s times differ 2.1-fold: compare again"
    uneven = row_of("vanilla", (1,) * 3, (80, 59, 110))  # slower than one of them in every run
    sure = "MoA N=0 was faster than plain in every run, but this machine was too busy to tell"
    assert verdict([FAST, EAGLE, uneven])[0] == f"{sure} exactly how much."
    uneven = row_of("vanilla", (1,) * 3, (160, 100, 200))
    third = replace(EAGLE, method="medusa", rate=Spread(30, 29, 31))
    both = "MoA N=0 and EAGLE-2 were each faster"
    assert verdict([FAST, EAGLE, third, row_of("vanilla", (1,) * 3, (80, 59, 122))])[0].startswith(
        both
    )
    told = "Speed: this machine was too busy to tell."
    assert verdict([FAST, EAGLE, uneven])[0] == told


def test_trees_that_size_themselves_are_a_reason_for_another_tau():
    sized = replace(FAST, tau=Spread(3.6, 3.4, 3.7), tree=AUTO)
    assert any("so tokens per call vary" in said for said in verdict([sized, EAGLE]))
    assert not any("size themselves" in said for said in verdict([FAST, EAGLE]))
    calls = f"MoA N=0 17 to 19 of {call(sized)} and EAGLE-2 31 of {call(EAGLE)}"
    assert verdict([sized, EAGLE])[2] == f"Model calls: {calls}"
