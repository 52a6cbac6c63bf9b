"""What a sweep over N says, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from demo.common.methods import RIVAL, VANILLA, family, tli_of
from demo.common.spread import Spread
from demo.compare.rows import Row, against


def short(method: str) -> str:
    """N = 1."""
    return f"N = {tli_of(method)}"


def draft_time(row: Row) -> Spread | None:
    """Milliseconds of drafting in a mean cycle of the middle run."""
    if row.cycles < 1:
        return None
    mean = 1000 * row.seconds.get("draft", 0.0) / row.cycles
    return Spread(mean, mean, mean)


def verdict(rows: Sequence[Row]) -> list[str]:
    """The fastest N and the highest τ, each against EAGLE-2."""
    swept = [row for row in rows if family(row.method) == "moa" and row.rate and row.tau]
    if not swept:
        return []
    rival, plain = against(rows, RIVAL), against(rows, VANILLA)
    fastest = max(swept, key=_rate)
    said = f"Fastest: {short(fastest.method)} with {_rate(fastest):.0f} tokens per second"
    said += _times(fastest, rival, _rate, "EAGLE-2") if rival else ""
    said += _times(fastest, plain, _rate, "plain decoding") if plain else ""
    best = max(swept, key=_tau)
    more = f"Highest τ: {short(best.method)} with {_tau(best):.2f}"
    more += _times(best, rival, _tau, "EAGLE-2") if rival else ""
    return [f"{said}.", f"{more}."]


def _rate(row: Row) -> float:
    return row.rate.middle if row.rate else 0.0


def _tau(row: Row) -> float:
    return row.tau.middle if row.tau else 0.0


def _times(row: Row, other: Row, figure: Callable[[Row], float], whose: str) -> str:
    """How many times another's; nothing where the repeats cannot tell the two apart."""
    if figure is _rate and row.rate and other.rate and row.rate.overlaps(other.rate):
        return f", too close to call against {whose}"
    return f", {figure(row) / figure(other):.2f} × {whose}"
