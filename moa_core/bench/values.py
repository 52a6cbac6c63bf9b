"""Values of a benchmark's results. Any of them may be missing or odd: it is left out."""

from __future__ import annotations

import math
from typing import Any

PHASES = ("draft", "verify", "other")


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def above_zero(value: Any) -> float | None:
    """A number where 0 can only mean that nothing was measured."""
    found = number(value)
    return found if found and found > 0 else None


def numbers(value: Any, count: int) -> list[float] | None:
    """The first so many numbers of a list; None if one of them is missing."""
    row = [number(item) for item in listed(value)[:count]]
    known = [item for item in row if item is not None]
    return known if len(known) == count else None


def mapping(value: Any) -> dict[str, Any]:
    """A dictionary with strings as keys, empty if it is none."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """A list, empty if it is none."""
    return list(value) if isinstance(value, list | tuple) else []


def kinds(results: dict[str, Any]) -> list[str]:
    """Kinds of prompt, in order of first appearance."""
    found = mapping(results.get("methods")).values()
    return list(dict.fromkeys(kind for one in found for kind in mapping(mapping(one).get("kinds"))))


def cycles(figures: dict[str, Any]) -> float | None:
    """Target forwards after the prefills."""
    bins = [numbers(row, 3) for row in listed(figures.get("tau_by_place"))]
    counted = sum(row[2] for row in bins if row)
    calls, prompts = number(figures.get("target_calls")), number(figures.get("prompts"))
    return counted or (above_zero(calls - prompts) if calls and prompts else None)


def phase_times(figures: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a mean cycle by phase; empty where that was not recorded."""
    seconds, count = mapping(figures.get("seconds")), cycles(figures)
    spent = {phase: number(seconds.get(phase)) for phase in PHASES}
    if not count or None in spent.values() or not sum(filter(None, spent.values())) > 0:
        return {}
    return {phase: 1000 * (part or 0) / count for phase, part in spent.items()}
