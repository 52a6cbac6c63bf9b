"""What a level and a node are worth: lines through times, curves of acceptance, and the choice."""

import itertools
import math
import random

import pytest

from moa_core.decoding import sizing
from moa_core.decoding.sizing import STATIC, Curve, Experience, Line


def test_a_line_finds_fixed_and_slope_and_follows_when_they_change() -> None:
    dice, line = random.Random(0), Line(0.05)
    for fixed, each in ((0.003, 0.0001), (0.001, 0.0004)):
        for _ in range(400):
            size = dice.randint(1, 20)
            line.add(size, (fixed + each * size) * dice.uniform(0.97, 1.03))
        assert line.fixed == pytest.approx(fixed, rel=0.15)
        assert line.each == pytest.approx(each, rel=0.15)


def test_one_size_alone_leaves_the_slope_at_its_first_guess() -> None:
    line = Line(0.05)
    for _ in range(20):
        line.add(10, 0.015)
    assert line(10) == pytest.approx(0.015)
    assert line.each == pytest.approx(0.05 * line.fixed) and line(20) > line(10)


def test_a_larger_size_is_never_free_even_where_times_are_noise() -> None:
    line = Line(0.03)
    for number in range(60):
        line.add(*((20, 0.010) if number % 2 else (1, 0.012)))
    assert line.each > 0 and line(40) > line(20)


def test_hiccups_hardly_move_a_line_and_a_slow_first_call_is_forgotten() -> None:
    line = Line(0.05)
    line.add(4, 0.5)  # loads and packs
    for number in range(60):
        line.add(4 + number % 3, 0.2 if number % 20 == 10 else 0.002)
    assert 0.002 <= line(5) < 0.0025


def test_a_curve_begins_with_what_the_drafter_says_and_learns_what_is_so() -> None:
    curve, dice = Curve(1.0), random.Random(0)
    for share in (1.0, 0.6, 0.05, 0.001):
        assert curve(math.log(share)) == pytest.approx(share, rel=0.06)
    for _ in range(300):
        for share in (0.9, 0.5, 0.2, 0.05):  # a drafter that is too sure of itself
            curve.add(math.log(share), dice.random() < share / 2)
        curve.renew()
    for share in (0.9, 0.5, 0.2):
        assert curve(math.log(share)) == pytest.approx(share / 2, abs=0.07)


def test_a_curve_takes_any_score() -> None:
    curve = Curve(0.7)
    for score in (0.0, -0.0, -5.6, -5.7, -80.0, -math.inf):
        curve.add(score, False)
        assert 0 <= curve(score) <= 1
    assert curve(-math.inf) == 0


def experience(level: float, wider: float, node: float, rate: float) -> Experience:
    """What has measured just these costs, and believes the drafter's probabilities."""
    known = Experience()
    for size in (1, 8) * 400:
        known.level.add(size, level + wider * size)
        known.verified.add(size, 0.002 + node * size)
    for _ in range(STATIC):
        known.learn(10, 10 / rate, 1, 0)
    assert known.ready and known.rate == pytest.approx(rate)
    return known


def trees() -> list[list[tuple[int, float]]]:
    """Random trees of up to seven nodes: (parent, probability of the whole path)."""
    dice, found = random.Random(1), []
    for _ in range(40):
        nodes = [(-1, 1.0)]
        for _ in range(dice.randint(1, 7)):
            parent = dice.randrange(len(nodes))
            left = nodes[parent][1] - sum(odds for above, odds in nodes if above == parent)
            nodes.append((parent, left * dice.uniform(0.05, 0.95)))
        found.append(nodes)
    return found


@pytest.mark.parametrize("node", [0.00001, 0.0002, 0.0006])
def test_the_kept_nodes_are_the_best_of_all_subtrees(node: float) -> None:
    known = experience(0.0005, 0.00002, node, 600)
    for nodes in trees():
        ranked = sorted(range(1, len(nodes)), key=lambda place: -nodes[place][1])
        scores = [math.log(nodes[place][1]) for place in ranked]
        kept = set(ranked[: known.to_keep(scores)])

        def worth(chosen: set[int], nodes: list[tuple[int, float]] = nodes) -> float:
            gains = [known.accepted(math.log(nodes[place][1])) for place in chosen]
            return sum(gains) - 600 * known.verified.each * len(chosen)

        subtrees = [
            set(chosen)
            for size in range(1, len(nodes))
            for chosen in itertools.combinations(range(1, len(nodes)), size)
            if all(nodes[place][0] in (0, *chosen) for place in chosen)
        ]
        assert worth(kept) == pytest.approx(max(map(worth, subtrees)), abs=2e-3)
        assert all(nodes[place][0] in (0, *kept) for place in kept)


@pytest.mark.parametrize("odds", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("level", [0.0002, 0.0008])
def test_a_chain_is_drafted_as_deep_as_is_best(
    odds: float, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target goes on with `odds` after every node, which no level tells more of: brute force
    over all depths."""
    monkeypatch.setattr(sizing, "AHEAD", 1.0)
    rate, known = 500, experience(level, 0.0, 0.00005, 500)
    for _ in range(4000):
        for depth in range(1, 13):
            known.extended.add(depth * math.log(odds), False)
        known.extended.renew()
    known.extended._table = [math.exp(-place / 3) * odds for place in range(18)]
    cost = rate * (level + known.verified.each)
    best = max(range(1, 13), key=lambda d: sum(odds**i for i in range(1, d + 1)) - cost * d)
    depth = 1
    while depth < 12 and known.to_expand([depth * math.log(odds)]):
        depth += 1
    assert abs(depth - best) <= 1  # bins are coarse


def test_more_is_drafted_the_slower_the_rest_is() -> None:
    level = [math.log(odds) for odds in (0.3, 0.1, 0.05, 0.02)]
    counts = [experience(0.0008, 0.0001, 0.0001, rate).to_expand(level) for rate in (900, 150, 30)]
    assert counts[0] == 0 < counts[1] <= counts[2] == 4
    kept = [experience(0.0008, 0.0001, 0.0002, rate).to_keep(level) for rate in (900, 300, 30)]
    assert kept == sorted(kept) and kept[0] < kept[2]


def test_what_is_below_the_least_score_is_never_kept() -> None:
    known = experience(0.0005, 0.00002, 0.0002, 600)
    least = known.least()
    assert known.to_keep([-0.1, -0.2, least - 0.01]) == 2
    assert experience(0.0005, 0.00002, 0.0002, 1).least() == -math.inf


def test_a_hiccup_hardly_moves_the_rate() -> None:
    known = experience(0.0005, 0.00002, 0.0002, 500)
    for _ in range(50):
        known.learn(4, 4 / 500, 8, 3)
    known.learn(4, 30.0, 8, 3)
    assert known.rate > 440
