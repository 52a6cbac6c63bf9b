"""Auto N: each cycle, of several N, the drafter that promises most tokens per second.

The paper fixes N before training and leaves its choice while decoding to future work (arXiv
2410.03804). A larger N gains more tokens per cycle and drafts for longer; which of the two weighs
more depends on the machine, on the text and on the way to the target.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Self

from torch import nn

from moa_core.decoding.policy import Chooser, cycle_seconds
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import Drafter, ServerHalf
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.target import Observation, Target


class AutoDrafter(Drafter):
    """Several MoA drafters, one of which drafts in each cycle; `tli` says which.

    Only that one takes in what the target has read. The K and V of verified tokens stay in the
    target's cache, so whoever drafts anew takes in all that it has missed in one go: while it waits
    it costs nothing, and what it catches up on is part of its cycle's draft time.
    """

    name = "moa-auto"
    tli: int
    beside = True  # whose half is made hangs on what was drafted: see `server_half`

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
        return self.candidates[self.tli].propose(token, settings)

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        self.candidates[self.tli].learn(drafted, verified)
        self.chooser.learn(verified.gained, cycle_seconds(drafted, verified))
