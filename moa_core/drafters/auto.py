"""Auto N: in each cycle, the N with the most expected tokens per second.

The paper fixes N before training and leaves its choice during decoding to future work (arXiv
2410.03804). A larger N gains more tokens per cycle but drafts more slowly. Which effect is larger
depends on the machine, the text and the link to the target.
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

    Only that one observes the target. K and V of verified tokens stay in the target's cache, so a
    drafter that takes over observes all the tokens that it missed at once. An idle drafter costs
    nothing; catching up is part of its cycle's draft time.
    """

    name = "moa-auto"
    tli: int
    beside = True  # the server half depends on the chosen drafter: see `server_half`

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
        """Choose the next drafter; return its half of these tokens and of those it missed."""
        self.tli = self.chooser.pick()
        one = self.candidates[self.tli]
        missed = self.ids[len(one.ids) :]
        # Hidden states are those of the newest tokens only: MoA reads K and V.
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
