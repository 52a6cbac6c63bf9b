"""The figures of a run, counted as its events come: the live tiles and the endpoint's answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moa_core.trace import Drafted, Event, Finished, Prefilled, Trace, Verified

SHOWN = ("draft", "verify", "other")


class Figures:
    """Sums over events, so that showing each cycle costs the same however long the run is."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._tokens = self._cycles = self._gained = self._accepted = self._drafted = 0
        self._calls = 0
        self._seconds = dict.fromkeys(("prefill", *SHOWN), 0.0)
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Count one more event."""
        match event:
            case Prefilled():
                self._tokens = self._calls = 1
                self._seconds["prefill"] += event.seconds
            case Drafted():
                self._drafted += len(event.tree) - 1
                self._seconds["draft"] += event.seconds
            case Verified():
                self._calls += 1
                self._cycles += 1
                self._gained += event.gained
                self._accepted += len(event.path)
                self._tokens += len(event.emitted)
                self._seconds["verify"] += event.seconds
                self._seconds["other"] += event.other_seconds
            case Finished() if event.seconds:
                self._seconds = {phase: event.seconds.get(phase, 0.0) for phase in self._seconds}

    def as_dict(self) -> dict[str, Any]:
        """tokens, rate (tokens/s, prefill left out), tau, acceptance (accepted drafts over drafted
        nodes), drafted, calls, cycles, prefill (s), shares of the time after it by phase."""
        spent = {phase: self._seconds[phase] for phase in SHOWN}
        total = sum(spent.values())
        after = self._tokens - 1  # the prefill's own token and time are left out
        return {
            "tokens": self._tokens,
            "rate": after / total if total and after > 0 else None,
            "tau": self._gained / self._cycles if self._cycles else None,
            "acceptance": self._accepted / self._drafted if self._drafted else None,
            "drafted": self._drafted,
            "calls": self._calls,
            "cycles": self._cycles,
            "prefill": self._seconds["prefill"],
            "shares": {phase: value / total for phase, value in spent.items()} if total else None,
        }


def stats(trace: Trace) -> dict[str, Any]:
    """The figures of a whole trace."""
    return Figures(trace.events).as_dict()
