"""Auto N: each cycle, of several N, the drafter that promises most tokens per second.

The paper fixes N before training and leaves its choice while decoding to future work (arXiv
2410.03804). A larger N gains more tokens per cycle and drafts for longer; which of the two weighs
more depends on the machine, on the text and on the way to the target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import Self

from torch import nn

from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import Drafter, ServerHalf
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.target import Observation, Target

BLOCK = 2  # cycles that a candidate drafts in a row, since the first has text to catch up on
RECENT = 5  # cycles of a candidate whose times count
DECAY = 0.98  # of what was gained, with every cycle: some 50 cycles are remembered
PRIOR = 5.0  # cycles of the candidates' common gain that each one's own is mixed with
CURIOSITY = 0.15  # the more, the sooner one that has not drafted for long is tried again


@dataclass
class Candidate:
    """What is known of one N. All sums are decayed; tries are its cycles, and one for a start."""

    tokens: float = 0.0
    cycles: float = 0.0
    tries: float = 1.0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))


class Chooser:
    """Picks the candidate for each cycle by a discounted upper-confidence rule (arXiv 0805.3415).

    A candidate is worth E[tokens gained] / E[seconds of a cycle], raised the more, the fewer of the
    remembered cycles were its own. Times say much after a few cycles, gains little: so a
    candidate's gain is mixed with that of all, and its time is a median, which a hiccup of the
    machine does not move. The two least N are tried first; what the others will take is known from
    theirs, so that one of no promise costs nothing for a long while.

    round_trip  seconds that a link adds to each cycle, where the measured times do not hold it
    """

    def __init__(self, names: Sequence[int], round_trip: float = 0.0) -> None:
        self.round_trip = round_trip
        self._known = {name: Candidate() for name in names}
        self._now = names[0]
        self._row = 0  # cycles that this one has now drafted without a break

    def pick(self) -> int:
        """The candidate for the next cycle. The first two are tried at once, in their order."""
        if 0 < self._row < BLOCK:
            return self._now
        untried = [name for name in sorted(self._known)[:2] if not self._known[name].seconds]
        best = untried[0] if untried else max(self._known, key=self._hoped)
        self._row = 0 if best != self._now else self._row
        self._now = best
        return best

    def learn(self, gained: int, seconds: float) -> None:
        """What the last pick gained in tokens, bonus included, and how long its cycle took."""
        for known in self._known.values():
            known.tokens *= DECAY
            known.cycles *= DECAY
            known.tries *= DECAY
        known = self._known[self._now]
        known.tokens += gained
        known.cycles += 1
        known.tries += 1
        known.seconds.append(seconds)
        self._row += 1

    def rate(self, name: int) -> float:
        """Tokens per second expected of a candidate, once two have drafted."""
        known = self._known[name]
        common = sum(one.tokens for one in self._known.values())
        common /= sum(one.cycles for one in self._known.values())
        gain = (known.tokens + PRIOR * common) / (known.cycles + PRIOR)
        return gain / max(self._seconds(name) + self.round_trip, 1e-9)

    def _seconds(self, name: int) -> float:
        """Of a cycle. Before any was measured, by a line through the two nearest N that have been:
        each layer more takes about as long as the last."""
        known = self._known[name].seconds
        if known:
            return median_low(known)
        measured = (other for other, one in self._known.items() if one.seconds)
        near, far = sorted(measured, key=lambda other: abs(other - name))[:2]
        layer = (self._seconds(far) - self._seconds(near)) / (far - near)
        return self._seconds(near) + max(layer, 0) * (name - near)

    def _hoped(self, name: int) -> float:
        return self.rate(name) * (1 + CURIOSITY / float(self._known[name].tries ** 0.5))


class AutoDrafter(Drafter):
    """Several MoA drafters, one of which drafts in each cycle; `tli` says which.

    Only that one takes in what the target has learnt. The K and V of verified tokens stay in the
    target's cache, so whoever drafts anew takes in all that it has missed in one go: while it waits
    it costs nothing, and what it catches up on is part of its cycle's draft time.

    round_trip  see Chooser
    trees       a tree for each N; None: the run's tree for all
    """

    name = "moa-auto"
    tli: int
    beside = True  # whose half is made hangs on what was drafted: see `server_half`

    def __init__(
        self,
        candidates: Sequence[MoADrafter],
        round_trip: float = 0.0,
        trees: Mapping[int, TreeSettings] | None = None,
    ) -> None:
        if not candidates:
            raise UserError("Auto N needs MoA drafters to choose from, and there are none.")
        self.candidates = {one.tli: one for one in sorted(candidates, key=lambda one: one.tli)}
        if len(self.candidates) < len(candidates):
            raise UserError("Auto N chooses between drafters of different N: two are alike.")
        self.round_trip = round_trip
        self.trees = dict(trees or {})
        self.net = nn.ModuleList([one.net for one in self.candidates.values()])
        self.precision = candidates[0].precision
        shapes = [self.trees.get(tli, one.tree) for tli, one in self.candidates.items()]
        self.tree = _covering(shapes) if trees else shapes[0]

    def fork(self) -> Self:
        twin = super().fork()
        twin.candidates = {tli: one.fork() for tli, one in self.candidates.items()}
        return twin

    def with_own_trees(self) -> AutoDrafter:
        """The same candidates, each with the tree that was measured for it."""
        trees = {tli: one.tree for tli, one in self.candidates.items()}
        return AutoDrafter(list(self.candidates.values()), self.round_trip, trees)

    def open(self, target: Target, capacity: int) -> None:
        self.chooser = Chooser(list(self.candidates), self.round_trip)
        self.ids: list[int] = []  # verified tokens
        for one in self.candidates.values():
            one.open(target, capacity)

    def server_half(self, observation: Observation) -> ServerHalf:
        """Choose who drafts next; its half of these tokens and of those that it has missed."""
        self.tli = self.chooser.pick()
        one = self.candidates[self.tli]
        missed = self.ids[len(one.ids) :]
        # With the hidden states of the newest alone: MoA reads K and V.
        whole = replace(
            observation, ids=(*missed, *observation.ids), start=observation.start - len(missed)
        )
        return one.server_half(whole)

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        self.ids.extend(ids)
        one = self.candidates[self.tli]
        one.observe(self.ids[len(one.ids) :], half)

    def place(self, *facts: Hashable) -> None:
        for one in self.candidates.values():
            one.place(*facts)

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        own = self.trees.get(self.tli, settings)
        shape = settings if settings.auto else _within(own, settings)
        return self.candidates[self.tli].propose(token, shape)

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        seconds = drafted.seconds + verified.seconds + verified.network_seconds
        seconds += verified.other_seconds
        self.candidates[self.tli].learn(drafted, verified)
        self.chooser.learn(verified.gained, seconds)


def _covering(shapes: Sequence[TreeSettings]) -> TreeSettings:
    """The least tree settings that each of these fits into: what caches are made for."""
    return TreeSettings(
        max(shape.depth for shape in shapes),
        max(shape.breadth for shape in shapes),
        max(shape.budget for shape in shapes),
    )


def _within(shape: TreeSettings, limit: TreeSettings) -> TreeSettings:
    """A tree no larger than the run has room for."""
    return TreeSettings(
        min(shape.depth, limit.depth),
        min(shape.breadth, limit.breadth),
        min(shape.budget, limit.budget),
    )
