"""Who won, in plain words, from the rows of a comparison."""

from collections.abc import Sequence

from demo.common.figures import leaders, listed
from demo.common.methods import VANILLA
from demo.compare.rows import Row, digits


def verdict(rows: Sequence[Row]) -> list[str]:
    """Who wrote fastest, tokens per call, and whether the text is plain decoding's."""
    measured = [row for row in rows if row.rate and row.tau]
    drafting = [row for row in measured if row.method != VANILLA]
    if len(measured) < 2 or not drafting:
        return []
    taus = ", ".join(f"{row.label} {digits(row.tau.middle, 'tau')}" for row in drafting if row.tau)
    trees = {row.tree for row in drafting}
    own = len(drafting) > 1 and (len(trees) > 1 or any(tree and tree.auto for tree in trees))
    length = f"tokens per model call: {taus}" + " (each with its own trees)" * own
    once = all(row.runs == 1 for row in measured)
    speed = _speed(measured) + " One run each: a small lead may be chance." * once
    return [speed, length, _sameness(measured)]


def _speed(measured: Sequence[Row]) -> str:
    """Who wrote fastest, against plain decoding, or else against the next."""
    rates = {row.label: row.rate for row in measured if row.rate}
    order, ahead = sorted(rates, key=lambda name: -rates[name].middle), leaders(rates)
    plain = next((row for row in measured if row.method == VANILLA), None)
    over = plain.label if plain else order[1]
    times = {name: f"{digits(one.over(rates[over]).middle, 'ratio')} ×"
             for name, one in rates.items() if name != over}  # fmt: skip
    whose = "plain decoding’s speed" if plain else f"{over}’s speed"
    if len(ahead) > 1:
        told = listed([times[name] for name in ahead if name in times])
        said = f"Who wrote fastest is too close to call: the runs of {listed(ahead)} overlap"
        level = [name for name in ahead if name in times and rates[name].overlaps(rates[over])]
        unsure = f"; {listed(level)} may be no faster" * bool(over not in ahead and level)
        return f"{said} ({told} {whose}{unsure})." if plain else f"{said}."
    if ahead == [over]:
        return f"Plain decoding wrote fastest: {order[1]} reached {times[order[1]]} {whose}."
    return f"{ahead[0]} wrote fastest: {times[ahead[0]]} {whose}."


def _sameness(rows: Sequence[Row]) -> str:
    known = {row.same for row in rows}
    if False in known:
        return "different text ✗"
    return "text not compared" if None in known else "same text ✓"
