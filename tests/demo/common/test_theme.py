"""The palette can be read in both themes, and told apart by whoever sees colours otherwise."""

from itertools import combinations

import numpy as np
import pytest

from demo.common.theme import MOA_SHADES, PALETTE, style_sheet

GROUNDS = {"light": "#ffffff", "dark": "#1c1917"}  # of both themes: gradio's stone
TOKENS, LANES = ("accepted", "rejected", "bonus", "offline"), ("moa", "eagle2", "plain")
PHASES = ("drafter", "bonus")

# Of linear RGB, in full: Machado, Oliveira and Fernandes 2009.
EYES = {
    "usual": np.eye(3),
    "no red cones": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green cones": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue cones": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
# OKLab, Ottosson 2020: equal distances look equally far apart.
CONES = [[0.4122, 0.5363, 0.0515], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
FAR = 0.1  # in OKLab, where black and white are 1 apart


def linear(shade):
    parts = np.array([int(shade[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    dark, light = sorted(linear(shade) @ [0.2126, 0.7152, 0.0722] for shade in (one, other))
    return (light + 0.05) / (dark + 0.05)


def seen(shade, eyes):
    return LAB @ np.cbrt(CONES @ np.clip(EYES[eyes] @ linear(shade), 0, 1))


@pytest.mark.parametrize("name", PALETTE)
def test_every_colour_is_seen_on_its_grounds(name):
    colour = PALETTE[name]
    for theme, ground in GROUNDS.items():
        assert contrast(getattr(colour, theme), ground) >= 4.5  # as words
        assert contrast(colour.mark, ground) >= 3  # as an area or a line of a chart
        assert f"--{name}: {getattr(colour, theme)};" in style_sheet()


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("group", [TOKENS, LANES, PHASES], ids=" ".join)
def test_colours_that_stand_beside_each_other_are_told_apart(group, eyes):
    for shade in ("light", "dark", "mark"):
        for one, other in combinations(group, 2):
            places = [seen(getattr(PALETTE[name], shade), eyes) for name in (one, other)]
            assert np.linalg.norm(places[0] - places[1]) >= FAR, (shade, one, other)


@pytest.mark.parametrize("eyes", EYES)
def test_moas_shades_are_told_apart(eyes):
    places = [seen(shade, eyes) for shade in MOA_SHADES]
    for one, other in combinations([places[tli] for tli in (0, 1, 3)], 2):
        assert np.linalg.norm(one - other) >= FAR
    for shade in MOA_SHADES:
        assert min(contrast(shade, ground) for ground in GROUNDS.values()) >= 3
