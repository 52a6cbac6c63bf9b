"""Figures of runs: their spread, counts, draft trees, model and machine; recordings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from demo.common.methods import VANILLA, label
from moa_core.decoding.trace import Drafted, Event, Prefilled, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Spread:
    """A figure over several runs.

    middle  the median of the repeats, or the figure of the run that stands for them
    """

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))

    @property
    def known(self) -> bool:
        """Whether the repeats differ at all."""
        return self.low < self.high

    def over(self, other: Spread) -> Spread:
        """This divided by the other: the middles' ratio, and the widest range of ratios."""
        return Spread(self.middle / other.middle, self.low / other.high, self.high / other.low)

    def overlaps(self, other: Spread) -> bool:
        return self.low <= other.high and other.low <= self.high


def leaders(spreads: Mapping[str, Spread]) -> list[str]:
    """Those that share the first place, the one with the highest figure first."""
    first = [name for name, place in places(spreads).items() if not place]
    return sorted(first, key=lambda name: -spreads[name].middle)


def places(spreads: Mapping[str, Spread]) -> dict[str, int]:
    """The place of each, from 0: how many have fewer that are surely higher, with no overlap."""
    higher = {
        name: sum(other.low > one.high for other in spreads.values())
        for name, one in spreads.items()
    }
    return {name: sum(one < mine for one in higher.values()) for name, mine in higher.items()}


def listed(names: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def many(count: int, word: str, words: str = "") -> str:
    """A count with its noun: 1 token, 2 tokens. words: the plural, if it is not word + s."""
    return f"{count} {word if count == 1 else words or word + 's'}"


def name_of(trace: Trace) -> str:
    """The method of a run; a trace from the command line names only its drafter."""
    return str(trace.about.get("method") or trace.about.get("drafter") or "a drafter")


def recorded_tree(trace: Trace) -> TreeSettings | None:
    """The shape of a run's draft trees; None without drafts, or if the file does not say."""
    settings = trace.about.get("settings")
    given = settings.get("tree") if isinstance(settings, dict) else None
    if name_of(trace) == VANILLA:
        return None
    try:
        return TreeSettings(**given) if given else None
    except (TypeError, UserError):
        return None


def method_of(trace: Trace) -> str:
    return label(name_of(trace))


def drafted_by(trace: Trace) -> str:
    """Method and tree: τ depends on both."""
    return ", ".join(filter(None, [method_of(trace), _trees(trace)]))


def _trees(trace: Trace) -> str:
    tree = recorded_tree(trace)
    if tree is None:
        return ""
    return "trees that size themselves" if tree.auto else f"tree {tree}"


def time_of(event: Event) -> float:
    """Seconds in the decode loop that an event stands for."""
    match event:
        case Prefilled() | Drafted():
            return event.seconds
        case Verified():
            return event.seconds + event.network_seconds + event.other_seconds
    return 0.0


def drafts(trace: Trace) -> tuple[int, int]:
    """How many nodes were drafted, and how many of them were accepted."""
    drafted = sum(len(event.tree) - 1 for event in trace.of(Drafted))
    return drafted, sum(len(event.path) for event in trace.of(Verified))


def about_of(trace: Trace) -> str:
    machine = trace.about.get("machine", {})
    parts = [
        str(trace.about.get("target", "")),
        _trees(trace),
        " ".join(str(machine.get(key, "")) for key in ("device", "dtype") if machine.get(key)),
        f"{machine['threads']} threads" if machine.get("threads", 0) > 1 else "",
    ]
    return " · ".join(part for part in parts if part)


def kept(read: Callable[[], T], nothing: T) -> T:
    """A recording, as `read` gives it; `nothing`, and a line in the log, for a damaged file."""
    try:
        return read()
    except UserError as error:
        log.warning("no recordings: %s", error)
        return nothing
