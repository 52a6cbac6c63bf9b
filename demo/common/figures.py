"""The figures of a run, counted as its events come: the live tiles and the endpoint's answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from demo.common.methods import VANILLA
from demo.common.offline import Healing
from moa_core.decoding.trace import (
    SHORTEST,
    Drafted,
    Event,
    Finished,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError

SHOWN = ("draft", "verify", "network", "other")
CUT = "a last cycle that is cut short counts in full"  # in τ; its tokens do not


class Figures:
    """Sums over events, so that showing each cycle costs the same however long the run is."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._tokens = self._cycles = self._gained = self._accepted = self._drafted = 0
        self._calls = 0
        self._seconds = dict.fromkeys(("prefill", *SHOWN), 0.0)
        self._bytes = {"prompt_up": 0, "prompt_down": 0, "up": 0, "down": 0}
        self._healing, self._lost, self._first = Healing(), 0, 0.0
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Count one more event."""
        self._healing.add(event)
        match event:
            case Prefilled():
                self._tokens = self._calls = 1
                self._seconds["prefill"] += event.seconds
                self._first = event.seconds
                self._bytes |= {"prompt_up": event.sent, "prompt_down": event.received}
            case Drafted():
                self._drafted += len(event.tree) - 1
                self._seconds["draft"] += event.seconds
                self._bytes["prompt_down"] += event.received
            case Verified():
                self._calls += 1
                self._cycles += 1
                self._gained += event.gained
                self._accepted += len(event.path)
                self._tokens += len(event.emitted)
                self._seconds["verify"] += event.seconds
                self._seconds["network"] += event.network_seconds
                self._seconds["other"] += event.other_seconds
                self._bytes["up"] += event.sent
                self._bytes["down"] += event.received
            case LinkDown():
                self._lost += 1
            case OfflineToken():
                self._seconds["draft"] += event.seconds
            case LinkBack():
                self._seconds["network"] += event.seconds
            case Finished() if event.seconds:
                self._seconds = {phase: event.seconds.get(phase, 0.0) for phase in self._seconds}

    def as_dict(self) -> dict[str, Any]:
        """tokens, rate (tokens/s, prefill included), decode_rate (prefill and its token left out),
        tau, acceptance (accepted drafts over drafted nodes), drafted, nodes (drafted in the mean
        tree), calls, cycles, prefill (s), shares of the time after it by phase; over a link also
        `link`, see `_link`."""
        over = any(self._bytes.values()) or self._lost
        spent = {phase: self._seconds[phase] for phase in SHOWN if over or phase != "network"}
        total = sum(spent.values())
        tokens = self._tokens + len(self._healing.waiting)
        whole, after = total + self._seconds["prefill"], tokens - 1
        return {
            "tokens": tokens,
            "rate": tokens / whole if whole > SHORTEST and tokens > 0 else None,
            "decode_rate": after / total if total > SHORTEST and after > 0 else None,
            "tau": self._gained / self._cycles if self._cycles else None,
            "acceptance": self._accepted / self._drafted if self._drafted else None,
            "drafted": self._drafted,
            "nodes": self._drafted / self._cycles if self._cycles else None,
            "calls": self._calls,
            "cycles": self._cycles,
            "prefill": self._seconds["prefill"],
            "shares": {phase: value / total for phase, value in spent.items()}
            if total > SHORTEST
            else None,
            **({"link": self._link()} if over else {}),
        }

    def _link(self) -> dict[str, Any]:
        """first (s until the first token); bytes: prompt_up, prompt_down (its share), up and down
        of all cycles; lost (times); offline tokens confirmed, changed, kept, and unverified."""
        healing = self._healing
        return {
            "first": self._first,
            **self._bytes,
            "lost": self._lost,
            "confirmed": healing.confirmed,
            "changed": healing.changed,
            "kept": healing.kept,
            "unverified": len(healing.waiting),
        }


def stats(trace: Trace) -> dict[str, Any]:
    """The figures of a whole trace."""
    return Figures(trace.events).as_dict()


def many(count: int, word: str, words: str = "") -> str:
    """A count of things: 1 token, 2 tokens. words: the plural where it is not word + s."""
    return f"{count} {word if count == 1 else words or word + 's'}"


def tree_of(trace: Trace) -> TreeSettings | None:
    """The shape of a run's draft trees; None where nothing is drafted, or a file does not say."""
    settings = trace.about.get("settings")
    given = settings.get("tree") if isinstance(settings, dict) else None
    if trace.about.get("method", trace.about.get("drafter")) == VANILLA:
        return None
    try:
        return TreeSettings(**given) if given else None
    except (TypeError, UserError):
        return None


def tree_words(tree: TreeSettings | None) -> str:
    """5-4-11: depth, breadth and budget; or auto."""
    return "–" if tree is None else str(tree)


def about_of(trace: Trace) -> str:
    """Model, tree and machine, in a small line."""
    machine = trace.about.get("machine", {})
    tree = tree_of(trace)
    parts = [
        str(trace.about.get("target", "")),
        f"tree {tree_words(tree)}" if tree else "",
        " ".join(str(machine.get(key, "")) for key in ("device", "dtype") if machine.get(key)),
        f"{machine['threads']} threads" if machine.get("threads", 0) > 1 else "",
    ]
    return " · ".join(part for part in parts if part)
