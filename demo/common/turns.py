"""Runs of several methods on one prompt, in turns: who runs when, what counts, how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from demo.common.methods import VANILLA, label
from demo.engine import Run
from moa_core.bench.runs import in_turn
from moa_core.decoding.trace import Event, Prefilled, Trace, Verified
from moa_core.errors import UserError

MOST_REPEATS = 5
WARM_UP = 16  # tokens that each method decodes first, not counted
INTERVAL = 0.25  # seconds between two words on progress: rare, since they take time from the runs


def check_repeats(count: Any) -> None:
    """UserError for a number of repeats that is not offered."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_REPEATS:
        raise UserError(f"The number of repeats must be a whole number, 1 to {MOST_REPEATS}.")


@dataclass(frozen=True)
class Progress:
    """One run that is to be made, and how far all of them are when it goes on.

    phase  warm-up (not counted), plain (plain decoding for its text, not counted), run
    share  of all the work done, 0 to 1
    run    number of this counted run, from 1, of `runs`; 0 before the first
    """

    phase: str
    method: str
    share: float = 0.0
    repeat: int = 0
    repeats: int = 0
    run: int = 0
    runs: int = 0

    @property
    def words(self) -> str:
        """Which method, which repeat, of how many."""
        if self.phase == "warm-up":
            return f"Warming up {label(self.method)}: a short run that is not counted."
        if self.phase == "plain":
            return "Plain decoding, not counted: the text that all others must write."
        return (
            f"Repeat {self.repeat} of {self.repeats}: {label(self.method)} "
            f"(run {self.run} of {self.runs})."
        )


class Counted:
    """The counted runs of a plan. traces: by method, oldest first; without stopped ones."""

    plan: Any  # says how many `repeats` each method has
    traces: dict[str, list[Trace]]

    @property
    def finished(self) -> int:
        """Counted runs that were finished."""
        return sum(map(len, self.traces.values()))

    @property
    def wanted(self) -> int:
        """Counted runs that the plan asks for."""
        return self.plan.repeats * len(self.traces)


def turns(methods: Sequence[str], repeats: int, plain: bool = False) -> list[Progress]:
    """Every run in order: each method's warm-up, then the counted ones.

    Methods take turns over the repeats, each time another one first, so that whatever else the
    machine does meets all of them.

    plain  also an uncounted run of plain decoding
    """
    found = [Progress("warm-up", method) for method in methods]
    if plain:
        found.append(Progress("plain", VANILLA))
    counted = enumerate(in_turn(methods, repeats, [None]), 1)
    runs = repeats * len(methods)
    return found + [
        Progress("run", method, 0.0, repeat + 1, repeats, run, runs)
        for run, (repeat, _, method) in counted
    ]


def tokens_of(steps: Sequence[Progress], length: int) -> int:
    """How many tokens these runs decode at most. length: of a run; warm-ups are short."""
    return sum(_lengths(steps, length))


def _lengths(steps: Sequence[Progress], length: int) -> list[int]:
    return [min(WARM_UP, length) if step.phase == "warm-up" else length for step in steps]


def take(
    steps: Sequence[Progress],
    length: int,
    prepare: Callable[[str, int], Run],
    keep: Callable[[Progress, Trace], None],
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Progress]:
    """Make all these runs, saying how far they are. One that was stopped is dropped, and the last.

    length   new tokens at most of a run; warm-ups are short
    prepare  from a method and its number of tokens to a run that has not begun
    keep     takes the finished ones, but for warm-ups
    """
    lengths = _lengths(steps, length)
    total, done = max(sum(lengths), 1), 0  # no tokens: `prepare` refuses that
    for step, most in zip(steps, lengths, strict=True):
        yield replace(step, share=done / total)
        if should_stop():
            return
        run = prepare(step.method, most)
        for tokens in _now_and_then(run, clock):
            yield replace(step, share=(done + tokens) / total)
        if run.trace.reason == "stopped":
            return
        if step.phase != "warm-up":
            keep(step, run.trace)
        done += most


def _now_and_then(run: Run, clock: Callable[[], float]) -> Iterator[int]:
    """Decode to the end; the number of tokens so far, every INTERVAL."""
    due, tokens = clock() + INTERVAL, 0
    with closing(run.events):
        for event in run.events:
            tokens += gained(event)
            if clock() >= due:
                yield tokens
                due = clock() + INTERVAL


def gained(event: Event) -> int:
    """New tokens that an event of a run brings."""
    match event:
        case Prefilled():
            return 1
        case Verified():
            return len(event.emitted)
    return 0
