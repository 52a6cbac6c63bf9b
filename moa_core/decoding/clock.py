"""Time by phase, for the decode loop."""

from __future__ import annotations

from time import perf_counter

from moa_core.decoding.trace import PHASES


class Stopwatch:
    """Time by phase. It stands still while a consumer of the events does its own work."""

    def __init__(self) -> None:
        self.totals = dict.fromkeys(PHASES, 0.0)
        self._mark = perf_counter()

    def lap(self, phase: str) -> float:
        """Charge the time since the last lap to a phase, and return it."""
        now = perf_counter()
        spent, self._mark = now - self._mark, now
        self.totals[phase] += spent
        return spent

    def move(self, seconds: float, phase: str, to: str) -> None:
        """Of what was charged to a phase, charge so much to another."""
        self.totals[phase] -= seconds
        self.totals[to] += seconds

    def resume(self) -> None:
        """Forget the time since the last lap: it was not ours."""
        self._mark = perf_counter()
