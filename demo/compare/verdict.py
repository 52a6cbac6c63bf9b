"""Who won, in a few short sentences, from the rows of a comparison and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from demo.common.methods import RIVAL, VANILLA, family
from demo.common.spread import Spread
from demo.compare.rows import Row, against, digits


def verdict(rows: Sequence[Row]) -> str:
    """Who is ahead in τ and in tokens/s, by how much, and whether speculation pays at all.

    Two methods cannot be told apart where their ranges over the repeats overlap.
    """
    measured = [row for row in rows if row.rate and row.tau]
    if not rows:
        return "No run was finished, so nothing is compared."
    if not measured:
        return "The answer is a single token, which the prefill gives: there is nothing to compare."
    if len(measured) == 1:
        return f"Only {measured[0].label} has finished runs, so there is nothing to compare it to."
    pair, vanilla = _pair(measured), against(measured, VANILLA)
    said = [_tau(*pair), _speed(*pair)] if pair else []
    if vanilla:
        said.append(_worth(_fastest([row for row in measured if row is not vanilla]), vanilla))
    if min(row.runs for row in measured) == 1:
        said.append("Each method ran once, so how much these speeds vary is not known.")
    return " ".join(said)


def chips(rows: Sequence[Row]) -> list[str]:
    """The same in a few words each: tokens per call, speed, and whether the text is plain's."""
    measured = [row for row in rows if row.rate and row.tau]
    pair = _pair(measured)
    if not pair:
        return []
    one, other = pair
    assert one.tau and other.tau and one.rate and other.rate
    taus = (f"{row.label} {digits(row.tau.middle, 'tau')}" for row in pair if row.tau)
    speed = f"{one.label} {_percent(one.rate, other.rate)} against {other.label}"
    if one.rate.overlaps(other.rate):
        speed = "too close to call"
    known = {row.same for row in measured}
    same = "text not compared" if None in known else "same text ✓"
    same = "different text ✗" if False in known else same
    ahead = _percent(one.tau, other.tau)
    return [f"tokens per call: {' · '.join(taus)} ({ahead})", f"speed: {speed}", same]


def _pair(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    """Whom to compare: the fastest MoA with EAGLE-2, else the two fastest that draft."""
    drafting = [row for row in rows if row.method != VANILLA]
    moa, eagle = [row for row in drafting if family(row.method) == "moa"], against(rows, RIVAL)
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
    mine, theirs = digits(one.tau.middle, "tau"), digits(other.tau.middle, "tau")
    ahead = "the same" if mine == theirs else _percent(one.tau, other.tau)
    if mine != theirs and one.tau.overlaps(other.tau):
        ahead = "too close to call"
    alike = one.tree == other.tree and not (one.tree and one.tree.auto)
    trees = "" if alike else " Their draft trees differ, and τ depends on the tree."
    return f"Acceptance length τ: {one.label} {mine}, {other.label} {theirs} ({ahead}).{trees}"


def _speed(one: Row, other: Row) -> str:
    assert one.rate and other.rate
    mine, theirs = digits(one.rate.middle, "rate"), digits(other.rate.middle, "rate")
    if mine == theirs:
        return f"Speed: {one.label} and {other.label} are level, at {mine} tokens/s."
    both = f"{one.label} {mine} tokens/s, {other.label} {theirs}"
    if one.rate.overlaps(other.rate):
        return f"Speed: too close to call ({both}; the repeats vary more than that)."
    return f"Speed: {both} ({_percent(one.rate, other.rate)})."


def _percent(one: Spread, other: Spread) -> str:
    percent = 100 * (one.middle / other.middle - 1)
    return f"{percent:+.{0 if abs(percent) >= 2 else 1}f} %".replace("-", "−")


def _worth(best: Row, vanilla: Row) -> str:
    """Whether drafting pays, by the fastest method that drafts."""
    assert best.rate and vanilla.rate
    times = f"{digits(best.rate.middle / vanilla.rate.middle, 'ratio')} × plain decoding"
    if digits(best.rate.middle, "rate") == digits(vanilla.rate.middle, "rate"):
        return f"Against plain decoding: {best.label} is as fast."
    if best.rate.overlaps(vanilla.rate):
        return (
            f"Against plain decoding: too close to call. {best.label} was {times}, but the runs "
            "varied more than that."
        )
    pays = "pays" if best.rate.middle > vanilla.rate.middle else "does not pay"
    return f"Against plain decoding: speculation {pays}, {best.label} is {times}."
