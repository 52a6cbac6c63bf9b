"""The verdict of a comparison: each branch."""

from dataclasses import replace

import pytest

from demo.compare.bench import told, verdict
from moa_core.decoding.tree import AUTO, TreeSettings
from tests.demo.compare.comparisons import row_of, trace_of

EAGLE = row_of("eagle2", (3.0, 3.0, 3.0), (100, 98, 103))
FAST_EAGLE = row_of("eagle2", (3.0,) * 3, (120, 118, 125))
FAST = row_of("moa-n0", (3.6,) * 3, (120, 118, 125))


@pytest.mark.parametrize(
    ("plain", "headline"),
    [
        ((80, 78, 82), "MoA N=0 reached 1.50 × plain decoding’s speed, the fastest here."),
        ((119, 115, 121),
         "MoA N=0 reached 1.01 × plain decoding’s speed; the fastest is too close to call: runs of "
         "MoA N=0 and plain decoding overlap."),
        ((160, 155, 165),
         "MoA N=0 reached 0.75 × plain decoding’s speed; plain decoding was the fastest."),
        (None, "MoA N=0 reached 1.20 × EAGLE-2’s speed, the fastest here."),
    ],
)  # fmt: skip
def test_the_headline_names_moa_and_then_who_was_fastest(plain, headline):
    found = [FAST, EAGLE, *([row_of("vanilla", (1,) * 3, plain)] if plain else [])]
    taus = "tokens per model call: MoA N=0 3.60, EAGLE-2 3.00"
    assert verdict(found) == [headline, taus, "same text ✓"]
    assert told(verdict(found)).startswith(f'<p class="conclusion">{headline}</p><b>tokens')


def test_more_tokens_per_call_that_are_not_faster_are_explained_by_the_cycle():
    slow = replace(row_of("moa-n0", (3.6,) * 3, (80, 79, 81)), trace=trace_of([2] * 30, 0.2))
    told_here = verdict([slow, EAGLE])
    assert told_here[0] == "MoA N=0 reached 0.80 × EAGLE-2’s speed; EAGLE-2 was the fastest."
    assert told_here[2] == (
        "more tokens per call, yet not faster: a cycle of MoA N=0 takes 200 ms, 40 of them to "
        "draft; one of EAGLE-2 100, 20 to draft"
    )
    assert len(verdict([FAST, EAGLE])) == len(told_here) - 1


def test_what_is_close_and_what_is_not_known_is_said():
    close = row_of("moa-n0", (3.6,) * 3, (104, 102, 108))  # its range touches EAGLE-2's
    said = "; the fastest is too close to call: runs of MoA N=0 and EAGLE-2 overlap."
    assert verdict([close, EAGLE])[0] == f"MoA N=0 reached 1.04 × EAGLE-2’s speed{said}"
    plain = row_of("vanilla", (1,) * 3, (80, 79, 81))
    headline = verdict([close, EAGLE, plain])[0]
    assert headline.endswith("runs of MoA N=0 and EAGLE-2 (1.25 ×) overlap.")
    plain = row_of("vanilla", (1,) * 3, (100, 95, 101))  # touches the second's range alone
    wide = row_of("eagle2", (3.0,) * 3, (103, 100, 106))
    unsure = " overlap. EAGLE-2 may be no faster than plain decoding."
    assert verdict([close, wide, plain])[0].endswith(unsure)
    assert "; EAGLE-2 was the fastest." in verdict([replace(FAST, rate=wide.rate), FAST_EAGLE])[0]
    for tree in (TreeSettings(6, 3, 12), AUTO):
        assert verdict([replace(FAST, tree=tree), EAGLE])[1].endswith(" (each with its own trees)")
    assert verdict([replace(FAST, same=False), EAGLE])[-1] == "different text ✗"
    assert verdict([replace(FAST, same=None), EAGLE])[-1] == "text not compared"
    assert verdict([]) == verdict([EAGLE]) == []
    assert verdict([row_of(name, None, None) for name in ("moa-n1", "eagle2")]) == []
    assert told([]) == ""
