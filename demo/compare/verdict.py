"""Who won, in a few words, from the rows of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from demo.common.figures import Spread
from demo.common.methods import RIVAL, VANILLA, family
from demo.compare.rows import Row, against, digits


def verdict(rows: Sequence[Row]) -> list[str]:
    """Tokens per call, speed, whether drafting pays, and whether the text is plain decoding's.

    If the ranges of two methods overlap, the speed is too close to call.
    """
    measured = [row for row in rows if row.rate and row.tau]
    drafting = [row for row in measured if row.method != VANILLA]
    plain = against(measured, VANILLA)
    if len(measured) < 2 or not drafting:
        return []
    said = []
    if pair := _pair(drafting):
        said += [_tau(*pair), f"speed: {_speed(*pair)}"]
    if plain and plain.rate:
        best = _fastest(drafting)
        assert best.rate
        over, close = best.rate.over(plain.rate).middle, best.rate.overlaps(plain.rate)
        times = f"{digits(over, 'ratio')} × plain decoding"
        sure = f"{'slower' if over < 1 else 'faster'}, {times}"
        said.append(f"{best.label}: {f'{times}, but the runs overlap' if close else sure}")
    known = {row.same for row in measured}
    same = "text not compared" if None in known else "same text ✓"
    return [*said, "different text ✗" if False in known else same]


def _pair(drafting: Sequence[Row]) -> tuple[Row, Row] | None:
    """The pair to compare: the fastest MoA and EAGLE-2, else the two fastest drafting methods."""
    moa, eagle = [row for row in drafting if family(row.method) == "moa"], against(drafting, RIVAL)
    if moa and eagle:
        return _fastest(moa), eagle
    if len(drafting) < 2:
        return None
    first = _fastest(drafting)
    return first, _fastest([row for row in drafting if row is not first])


def _fastest(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: row.rate.middle if row.rate else 0.0)


def _tau(one: Row, other: Row) -> str:
    assert one.tau and other.tau
    taus = [digits(row.tau.middle, "tau") for row in (one, other) if row.tau]
    ahead = "the same" if taus[0] == taus[1] else _percent(one.tau, other.tau)
    trees = "" if one.tree == other.tree and not (one.tree and one.tree.auto) else ", trees differ"
    return f"tokens per call: {one.label} {taus[0]} · {other.label} {taus[1]} ({ahead}{trees})"


def _speed(one: Row, other: Row) -> str:
    assert one.rate and other.rate
    if one.rate.overlaps(other.rate):
        return "too close to call"
    return f"{one.label} {_percent(one.rate, other.rate)} against {other.label}"


def _percent(one: Spread, other: Spread) -> str:
    percent = 100 * (one.middle / other.middle - 1)
    return f"{percent:+.{0 if abs(percent) >= 2 else 1}f} %".replace("-", "−")
