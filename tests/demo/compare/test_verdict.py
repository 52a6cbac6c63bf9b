"""The verdict of a comparison: each branch."""

from dataclasses import replace

import pytest

from demo.compare.bench import told, verdict
from moa_core.decoding.tree import AUTO, TreeSettings
from tests.demo.compare.comparisons import row_of

EAGLE = row_of("eagle2", (3.0, 3.0, 3.0), (100, 98, 103))
FAST = row_of("moa-n0", (3.6,) * 3, (120, 118, 125))


@pytest.mark.parametrize(
    ("plain", "headline"),
    [
        ((80, 78, 82), "MoA N=0 wrote fastest: 1.50 × plain decoding’s speed."),
        ((119, 115, 121),
         "Who wrote fastest is too close to call: the runs of MoA N=0 and Plain overlap (1.01 × "
         "plain decoding’s speed)."),
        ((160, 155, 165),
         "Plain decoding wrote fastest: MoA N=0 reached 0.75 × plain decoding’s speed."),
        (None, "MoA N=0 wrote fastest: 1.20 × EAGLE-2’s speed."),
    ],
)  # fmt: skip
def test_the_headline_says_who_wrote_fastest(plain, headline):
    found = [FAST, EAGLE, *([row_of("vanilla", (1,) * 3, plain)] if plain else [])]
    taus = "tokens per model call: MoA N=0 3.60, EAGLE-2 3.00"
    assert verdict(found) == [headline, taus, "same text ✓"]
    assert told(verdict(found)).startswith(f'<p class="conclusion">{headline}</p><b>tokens')


def test_what_is_close_and_what_is_not_known_is_said():
    close = row_of("moa-n0", (3.6,) * 3, (104, 102, 108))  # its range touches EAGLE-2's
    said = "Who wrote fastest is too close to call: the runs of MoA N=0 and EAGLE-2 overlap"
    assert verdict([close, EAGLE])[0] == f"{said}."
    plain = row_of("vanilla", (1,) * 3, (80, 79, 81))
    assert verdict([close, EAGLE, plain])[0].endswith(
        " (1.30 × and 1.25 × plain decoding’s speed)."
    )
    plain = row_of("vanilla", (1,) * 3, (100, 95, 101))  # touches the second's range alone
    wide = row_of("eagle2", (3.0,) * 3, (103, 100, 106))
    assert "; EAGLE-2 may be no faster)." in verdict([close, wide, plain])[0]
    for tree in (TreeSettings(6, 3, 12), AUTO):
        assert verdict([replace(FAST, tree=tree), EAGLE])[1].endswith(" (each with its own trees)")
    assert verdict([replace(FAST, same=False), EAGLE])[-1] == "different text ✗"
    assert verdict([replace(FAST, same=None), EAGLE])[-1] == "text not compared"
    assert verdict([]) == verdict([EAGLE]) == []
    assert verdict([row_of(name, None, None) for name in ("moa-n1", "eagle2")]) == []
    assert told([]) == ""
