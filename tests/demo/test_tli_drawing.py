"""The drawing of what N means: well-formed, and true to N."""

import re
from xml.etree import ElementTree

import pytest

from demo.tli.drawing import drawing_html, explanation


def boxes(tli, layers):
    """(kind, text) of every box, those of the drafter's column alone."""
    svg = re.search(r"<svg.*</svg>", drawing_html(tli, layers))[0]
    space = "{http://www.w3.org/2000/svg}"
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{space}g"):
        kind = group.get("class").removeprefix("box ")
        found.append((float(group[0].get("x")), kind, group[1].text))
    return [(kind, text) for x, kind, text in found if x > 200]


@pytest.mark.parametrize("tli", range(4))
def test_the_drafter_runs_the_last_n_layers_and_no_other(tli):
    drawn = boxes(tli, 12)
    layers = [text for kind, text in drawn if text.startswith("layer")]
    assert layers == [f"layer {12 - place}" for place in range(tli)]
    assert ("reused", "norm") in drawn if tli else "norm" not in dict(drawn).values()
    assert [text for kind, text in drawn if kind == "own"] == ["CA", "SA"]


def test_without_a_target_layers_have_relative_names():
    assert ("reused", "layer L−1") in boxes(2, None) and ("reused", "layer L") in boxes(2, None)


@pytest.mark.parametrize("layers", [None, 2, 12])
def test_each_n_is_explained(layers):
    assert "No layer" in explanation(0, layers)
    assert "the last of the target’s 12 layers" in explanation(1, 12)
    assert "the last 3 of the target’s 12 layers" in explanation(3, 12)
    assert "the last 3 of the target’s L layers" in explanation(3)
    page = drawing_html(1, layers)
    assert "<em>adds</em>" in page and 'role="img"' in page and "aria-label" in page
