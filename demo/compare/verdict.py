"""One sentence on who won, made from the rows of a comparison and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from demo.common.methods import RIVAL, VANILLA, family
from demo.common.spread import Spread
from demo.compare.rows import Row, against, words

UNITS = {"tau": "acceptance length τ", "rate": "tokens/s of the whole run"}


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
    parts = [_duel(*pair)] if pair else []
    if vanilla:
        parts.append(_worth(_fastest([row for row in measured if row is not vanilla]), vanilla))
    once = min(row.runs for row in measured) == 1
    unknown = "; from one repeat, so how far such numbers spread is not known" if once else ""
    return f"On this prompt {'; '.join(parts)}{unknown}."


def relation(one: Spread, other: Spread, kind: str) -> int:
    """1: ahead, -1: behind, 0: neither, that is their ranges overlap or they read the same."""
    if one.overlaps(other) or _reads_the_same(one, other, kind):
        return 0
    return 1 if one.middle > other.middle else -1


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
    return max(rows, key=lambda row: row.rate.middle)


def _duel(one: Row, other: Row) -> str:
    """MoA N=1 beats EAGLE-2 in τ (3.41 against 3.02, +13 %) but trails it in tokens/s (...)."""
    tau, rate = (relation(getattr(one, kind), getattr(other, kind), kind) for kind in UNITS)
    verb, second_verb = _verb(one, other, "tau", tau), _verb(one, other, "rate", rate)
    first = f"{one.label} {verb} {other.label} in {_numbers(one, other, 'tau', tau)}"
    second = f"in {_numbers(one, other, 'rate', rate)}"
    if verb != second_verb:
        second = f"{'and' if tau == rate else 'but'} {second_verb} it {second}"
    else:
        second = f"and {second}"
    alike = one.tree == other.tree and not (one.tree and one.tree.auto)
    trees = "" if alike else "; their draft trees differ, and τ depends on them"
    return f"{first} {second}{trees}"


def _verb(one: Row, other: Row, kind: str, ahead: int) -> str:
    """Ranges that overlap do not make two methods level: it is not known who is ahead."""
    same = _reads_the_same(getattr(one, kind), getattr(other, kind), kind)
    level = "is level with" if same else "cannot be told apart from"
    return {1: "beats", 0: level, -1: "trails"}[ahead]


def _reads_the_same(one: Spread, other: Spread, kind: str) -> bool:
    return words(one.middle, kind) == words(other.middle, kind)


def _numbers(one: Row, other: Row, kind: str, ahead: int) -> str:
    mine, theirs = getattr(one, kind), getattr(other, kind)
    both = f"{words(mine.middle, kind)} against {words(theirs.middle, kind)}"
    return f"{UNITS[kind]} ({both}: {_apart(mine, theirs, kind, ahead, min(one.runs, other.runs))})"


def _apart(one: Spread, other: Spread, kind: str, ahead: int, repeats: int) -> str:
    if ahead:
        spread = f", more than the spread over {repeats} repeats"
        return _difference(one, other) + (spread if kind == "rate" and repeats > 1 else "")
    if _reads_the_same(one, other, kind):
        return "the same"
    return f"the ranges over {repeats} repeats overlap" if repeats > 1 else "the ranges overlap"


def _difference(one: Spread, other: Spread) -> str:
    percent = 100 * (one.middle / other.middle - 1)
    digits = 0 if abs(percent) >= 2 else 1
    return f"{percent:+.{digits}f} %".replace("-", "−")


def _worth(best: Row, vanilla: Row) -> str:
    """Whether drafting pays, by the fastest method that drafts."""
    found, ratio = relation(best.rate, vanilla.rate, "rate"), best.rate.over(vanilla.rate)
    times = words(ratio.middle, "ratio")
    if not found and not _reads_the_same(best.rate, vanilla.rate, "rate"):
        times = f"{words(ratio.low, 'ratio')} to {words(ratio.high, 'ratio')}"
    times += " × vanilla’s (plain decoding’s) tokens/s"
    named = f"{best.label}, the fastest that drafts, has {times}"
    if found > 0:
        return f"speculation pays: {best.label} has {times}"
    if found < 0:
        return f"speculation does not pay: {named}"
    if _reads_the_same(best.rate, vanilla.rate, "rate"):
        return f"speculation neither pays nor costs: {named}"
    return f"whether speculation pays is not clear: {named}, by the repeats’ ranges"
