"""Decodes with timers off, with timers on, and counting; each cycle but a text's first one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter

from tqdm import tqdm

from moa_core.bench.profile_graphs import GRAPH, as_replayed
from moa_core.bench.profile_seams import timed
from moa_core.bench.profile_spans import (
    HostClock,
    Piece,
    Recorder,
    clock_for,
    middle,
    middle_seconds,
    split,
)
from moa_core.bench.profile_work import Counting, Work
from moa_core.bench.runs import in_turn
from moa_core.decode import Settings, decode
from moa_core.drafters.base import Drafter
from moa_core.native.switch import replaced
from moa_core.static.run import suits
from moa_core.target import Target
from moa_core.trace import Verified
from moa_core.tree import TreeSettings

WARM_UP = 1  # texts per method before the first one that counts


@dataclass(frozen=True)
class Contender:
    """A drafter and the tree it drafts."""

    drafter: Drafter
    tree: TreeSettings


@dataclass
class Profile:
    """What was seen of one method: all cycles, and of one text what they do.

    quiet   seconds of cycles without timers
    timed   seconds by piece of cycles with timers
    gained  tokens of each verification
    work    of a cycle on average, by piece; calls likewise
    held    bytes of the weights and caches that a cycle reads, each once
    context verified tokens at the middle of the texts
    """

    quiet: list[float] = field(default_factory=list)
    timed: list[dict[Piece, float]] = field(default_factory=list)
    gained: list[int] = field(default_factory=list)
    work: dict[Piece, Work] = field(default_factory=dict)
    calls: dict[Piece, float] = field(default_factory=dict)
    held: int = 0
    context: float = 0.0

    @property
    def cycle(self) -> float:
        """Seconds of a cycle, timers off."""
        return middle_seconds(self.quiet)

    @property
    def pieces(self) -> dict[Piece, float]:
        """Seconds by piece of a cycle, timers on."""
        return middle(self.timed) if self.timed else {}

    @property
    def tau(self) -> float:
        """Acceptance length: tokens gained per target forward, bonus included."""
        return sum(self.gained) / len(self.gained) if self.gained else 0.0

    @property
    def all_work(self) -> Work:
        """Of a whole cycle."""
        return sum(self.work.values(), Work())


def profile_all(
    target: Target,
    contenders: Mapping[str, Contender],
    prompts: Sequence[Sequence[int]],
    tokens: int,
    repeats: int,
    most: int | None = None,
    eos_ids: tuple[int, ...] = (),
) -> dict[str, Profile]:
    """Every method on every prompt in turn, so that a change of the machine's speed meets all.

    most  cycles of a text; None: as many as its tokens take
    """
    found = {name: Profile() for name in contenders}
    bar = tqdm(total=len(contenders) * len(prompts) * (1 + repeats), desc="profile", unit="text")
    for name, contender in contenders.items():
        settings = Settings(tokens, contender.tree, eos_ids=eos_ids)
        for prompt in prompts[:WARM_UP]:
            quiet_cycles(target, contender.drafter, prompt, settings, most)
        # A replay calls no operators; what is not replayed is counted as it is timed.
        seen = target.eager() if suits(target, contender.drafter) else target
        work = []
        for prompt in prompts:
            work.append(counted(seen, contender.drafter, prompt, settings, most))
            bar.update()
        found[name].work, found[name].calls = _mean(work)
        found[name].held = max(one.held for one in work)
    for _, place, name in in_turn(list(contenders), repeats, prompts):
        contender, profile = contenders[name], found[name]
        settings = Settings(tokens, contender.tree, eos_ids=eos_ids)
        seconds, gained = quiet_cycles(target, contender.drafter, prompts[place], settings, most)
        profile.quiet += seconds
        profile.gained += gained
        profile.timed += timed_cycles(target, contender.drafter, prompts[place], settings, most)
        if any(piece.name == GRAPH for cycle in profile.timed for piece in cycle):
            profile.work = as_replayed(profile.work)
        profile.context += (len(prompts[place]) + sum(gained) / 2) / (repeats * len(prompts))
        bar.update()
    bar.close()
    return found


def quiet_cycles(
    target: Target, drafter: Drafter, ids: Sequence[int], settings: Settings, most: int | None
) -> tuple[list[float], list[int]]:
    """Seconds of each cycle but the first, and the tokens that each gained."""
    ends, gained = [], []
    for event in _cycles(target, drafter, ids, settings, most):
        ends.append(perf_counter())
        gained.append(event.gained)
    return [end - start for start, end in pairwise(ends)], gained[1:]


def timed_cycles(
    target: Target, drafter: Drafter, ids: Sequence[int], settings: Settings, most: int | None
) -> list[dict[Piece, float]]:
    """Seconds by piece of each cycle but the first."""
    recorder = Recorder(clock_for(target.device))
    with timed(recorder, target, drafter):
        for number, _ in enumerate(_cycles(target, drafter, ids, settings, most)):
            if number == 0:  # LSA over the whole prompt is in it
                recorder.clear()
            recorder.cycle()
    return split(recorder.tape())


@dataclass(frozen=True)
class Count:
    """What was counted in one text: cycles but the first, and what their pieces did in all."""

    cycles: int
    work: dict[Piece, Work]
    calls: dict[Piece, int]
    held: int


def counted(
    target: Target, drafter: Drafter, ids: Sequence[int], settings: Settings, most: int | None
) -> Count:
    """Decode one text and count, in no matter what time."""
    recorder = Recorder(HostClock())
    counting = Counting(recorder)
    cycles = -1
    with timed(recorder, target, drafter), ExitStack() as later:
        for _ in _cycles(target, drafter, ids, settings, most):
            cycles += 1
            if cycles == 0:
                recorder.clear()
                later.enter_context(counting)
                later.enter_context(replaced(counting.kernels))
    return Count(cycles, dict(counting.work), dict(recorder.calls), counting.held)


def _mean(counts: Sequence[Count]) -> tuple[dict[Piece, Work], dict[Piece, float]]:
    """Work and calls of a cycle."""
    cycles = max(1, sum(one.cycles for one in counts))
    work: dict[Piece, Work] = defaultdict(Work)
    calls: dict[Piece, float] = defaultdict(float)
    for one in counts:
        for piece, each in one.work.items():
            work[piece] += each / cycles
        for piece, times in one.calls.items():
            calls[piece] += times / cycles
    return dict(work), dict(calls)


def _cycles(
    target: Target, drafter: Drafter, ids: Sequence[int], settings: Settings, most: int | None
) -> Iterator[Verified]:
    """The verifications of one text: `most` of them after the first, if there are so many."""
    seen: list[Verified] = []

    def enough() -> bool:
        return most is not None and len(seen) > most

    for event in decode(target, drafter, ids, settings, enough):
        if isinstance(event, Verified):
            seen.append(event)
            yield event
