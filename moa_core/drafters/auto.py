"""Auto N: in each cycle, the N with the most expected tokens per second.

The paper fixes N before training and leaves its choice during decoding to future work (arXiv
2410.03804). A larger N gains more tokens per cycle but drafts more slowly. Which effect is larger
depends on the machine, the text and the link to the target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import Self

from torch import nn

from moa_core.decoding.policy import FADING, cycle_seconds
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import Drafter, ServerOutputs
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.target import Observation, Target

BLOCK = 2  # cycles that a candidate drafts in a row, because the first has to catch up on text
RECENT = 5  # cycles of a candidate whose times count
PRIOR_CYCLES = 5.0  # weight of the candidates' common gain in each one's gain, in cycles
CURIOSITY = 0.15  # the larger, the sooner an idle candidate is tried again


@dataclass
class Candidate:
    """Measurements of one N. All sums are decayed; `tries` are its cycles, plus one."""

    tokens: float = 0.0
    cycles: float = 0.0
    tries: float = 1.0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))


class Chooser:
    """Picks the candidate for each cycle by a discounted upper-confidence rule (arXiv 0805.3415).

    A candidate is worth E[tokens gained] / E[seconds of a cycle], with a bonus for candidates that
    had few of the remembered cycles. A few cycles suffice for times but not for gains, so a
    candidate's gain is mixed with the gain of all. Its time is a median, to ignore hiccups of the
    machine. The two smallest N are tried first. Their times predict those of the others, so an
    unpromising N need not be tried for a long while.
    """

    def __init__(self, names: Sequence[int]) -> None:
        self.known = {name: Candidate() for name in names}
        self.now = names[0]
        self._row = 0  # cycles that this one has drafted in a row

    def pick(self) -> int:
        """The candidate for the next cycle. The first two are tried at once, in their order."""
        if 0 < self._row < BLOCK:
            return self.now
        untried = [name for name in sorted(self.known)[:2] if not self.known[name].seconds]
        best = untried[0] if untried else max(self.known, key=self._hoped)
        self._row = 0 if best != self.now else self._row
        self.now = best
        return best

    def learn(self, gained: int, seconds: float) -> None:
        """Learn the tokens that the last pick gained, bonus included, and its cycle's seconds."""
        for known in self.known.values():
            known.tokens *= FADING
            known.cycles *= FADING
            known.tries *= FADING
        known = self.known[self.now]
        known.tokens += gained
        known.cycles += 1
        known.tries += 1
        known.seconds.append(seconds)
        self._row += 1

    def rate(self, name: int) -> float:
        """Tokens per second expected of a candidate, once two have drafted."""
        known = self.known[name]
        common = sum(one.tokens for one in self.known.values())
        common /= sum(one.cycles for one in self.known.values())
        gain = (known.tokens + PRIOR_CYCLES * common) / (known.cycles + PRIOR_CYCLES)
        return gain / max(self._seconds(name), 1e-9)

    def _seconds(self, name: int) -> float:
        """Seconds of a cycle. If unmeasured, by a line through the two nearest measured N: each
        layer takes about the same time."""
        known = self.known[name].seconds
        if known:
            return median_low(known)
        measured = (other for other, one in self.known.items() if one.seconds)
        near, far = sorted(measured, key=lambda other: abs(other - name))[:2]
        layer = (self._seconds(far) - self._seconds(near)) / (far - near)
        return self._seconds(near) + max(layer, 0) * (name - near)

    def _hoped(self, name: int) -> float:
        return self.rate(name) * (1 + CURIOSITY / float(self.known[name].tries ** 0.5))


class AutoDrafter(Drafter):
    """Several MoA drafters, one of which drafts in each cycle; `tli` says which.

    Only that one observes the target. K and V of verified tokens stay in the target's cache, so a
    drafter that takes over observes all the tokens that it missed at once. An idle drafter costs
    nothing; catching up is part of its cycle's draft time.
    """

    name = "moa-auto"
    tli: int
    needs_local_target = (
        True  # the server outputs depend on the chosen drafter: see `server_outputs`
    )

    def __init__(self, candidates: Sequence[MoADrafter]) -> None:
        if not candidates:
            raise UserError("Auto N needs MoA drafters to choose from, and there are none.")
        self.candidates = {one.tli: one for one in sorted(candidates, key=lambda one: one.tli)}
        if len(self.candidates) < len(candidates):
            raise UserError("Auto N chooses between drafters of different N: two are alike.")
        self.net = nn.ModuleList([one.net for one in self.candidates.values()])
        self.precision = candidates[0].precision
        self.tree = next(iter(self.candidates.values())).tree

    def fork(self) -> Self:
        twin = super().fork()
        twin.candidates = {tli: one.fork() for tli, one in self.candidates.items()}
        return twin

    def open(self, target: Target, capacity: int) -> None:
        self.chooser = Chooser(list(self.candidates))
        self.ids: list[int] = []  # verified tokens
        for one in self.candidates.values():
            one.open(target, capacity)

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        """Choose the next drafter; return its outputs for these tokens and those it missed."""
        self.tli = self.chooser.pick()
        one = self.candidates[self.tli]
        missed = self.ids[len(one.ids) :]
        # Hidden states are those of the newest tokens only: MoA reads K and V.
        whole = replace(
            observation, ids=(*missed, *observation.ids), start=observation.start - len(missed)
        )
        return one.server_outputs(whole)

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self.ids.extend(ids)
        one = self.candidates[self.tli]
        one.observe(self.ids[len(one.ids) :], outputs)

    def measure_for(self, *facts: Hashable) -> None:
        for one in self.candidates.values():
            one.measure_for(*facts)

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        return self.candidates[self.tli].propose(token, settings)

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        self.candidates[self.tli].learn(drafted, verified)
        self.chooser.learn(verified.gained, cycle_seconds(drafted, verified))
