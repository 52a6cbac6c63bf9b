"""Who won, in plain words, from the rows of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from demo.common.figures import Spread
from demo.common.methods import VANILLA, family, tli_of
from demo.compare.rows import Row, against, digits

NTH = "N\u00a0=\u00a0{}"
FEW = 40  # model calls: with fewer, tokens per call say little


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
    return [_speed(measured), length, _sameness(measured)]


def which_n(rows: Sequence[Row]) -> list[str]:
    """Of one method with several N: which accepts most, which is fastest, and what to doubt."""
    moa = [row for row in rows if family(row.method) == "moa" and row.rate and row.tau]
    if len(moa) < 2:
        return verdict(rows)
    names = [NTH.format(tli_of(row.method)) for row in moa]
    taus, rates = ({name: one for name, row in zip(names, moa, strict=True)
                    if (one := getattr(row, key))} for key in ("tau", "rate"))  # fmt: skip
    calls = min(row.calls for row in moa)
    few = [f"few model calls ({calls}): trust a longer text more"] * (calls < FEW)
    return [best_n(taus, rates), *few, _sameness(rows)]


def best_n(taus: Mapping[str, Spread], rates: Mapping[str, Spread]) -> str:
    """Which N accepts most and which is fastest, in a sentence each."""
    shown = {name: digits(tau.middle, "tau") for name, tau in taus.items()}
    first, *close = leaders(taus)
    most = f"{first} ({shown[first]})" + _close([f"{name} ({shown[name]})" for name in close])
    if rest := [f"{name}: {tau}" for name, tau in shown.items() if name not in (first, *close)]:
        most += f"; {', '.join(rest)}"
    first, *close = leaders(rates)
    return f"Most tokens per model call: {most}. Fastest: {first}{_close(close)}."


def leaders(spreads: Mapping[str, Spread]) -> list[str]:
    """The one with the highest figure, and those whose ranges overlap its own."""
    best = max(spreads, key=lambda name: spreads[name].middle)
    others = [name for name, one in spreads.items() if name != best and one.overlaps(spreads[best])]
    return [best, *others]


def _close(names: Sequence[str]) -> str:
    return f", too close to call with {listed(names)}" if names else ""


def listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _speed(measured: Sequence[Row]) -> str:
    """Who wrote fastest, against plain decoding, or else against the next."""
    rates = {row.label: row.rate for row in measured if row.rate}
    order, ahead = sorted(rates, key=lambda name: -rates[name].middle), leaders(rates)
    plain = against(measured, VANILLA)
    over = plain.label if plain else order[1]
    times = {name: f"{digits(one.over(rates[over]).middle, 'ratio')} ×"
             for name, one in rates.items() if name != over}  # fmt: skip
    whose = "plain decoding’s speed" if plain else f"{over}’s speed"
    if len(ahead) > 1:
        told = listed([times[name] for name in ahead if name in times])
        said = f"Who wrote fastest is too close to call: the runs of {listed(ahead)} overlap"
        return f"{said} ({told} {whose})." if plain else f"{said}."
    if ahead == [over]:
        return f"Plain decoding wrote fastest: {order[1]} reached {times[order[1]]} {whose}."
    return f"{ahead[0]} wrote fastest: {times[ahead[0]]} {whose}."


def _sameness(rows: Sequence[Row]) -> str:
    known = {row.same for row in rows}
    if False in known:
        return "different text ✗"
    return "text not compared" if None in known else "same text ✓"
