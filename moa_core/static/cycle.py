"""One cycle of a method, piece by piece: draft, verify, accept; then one copy to the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verify import Choices, Sampling, uniform
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.model.target import Target
from moa_core.static.drafting import EagleLevels, Levels, MoALevels
from moa_core.static.growing import Growth, Nodes
from moa_core.static.marks import Marks
from moa_core.static.players import NotCaptured, Plain, Player
from moa_core.static.slots import Slots, bucket
from moa_core.static.state import Text
from moa_core.static.verifying import Verification

METHODS: dict[type[Drafter], Callable[..., Levels] | None] = {
    Vanilla: None,
    MoADrafter: MoALevels,
    EagleDrafter: EagleLevels,
}


class Cycle:
    """Buffers and captured pieces of one method, over a target's cache.

    rows  tokens that a cycle verifies at most: levels of the deepest tree, and the root
    """

    def __init__(
        self, target: Target, drafter: Drafter, slots: Slots, rows: int, player: Player
    ) -> None:
        self.target = target = target.fork()
        target.seats = []  # who keeps this cycle: without them, nothing refers to itself
        width = target.config.hidden_size
        self.text = Text(slots, rows, width, target.dtype)
        make = METHODS[type(drafter)]
        self.levels = make and make(drafter, target, self.text, slots.cache.capacity)
        self.net: nn.Module | None = getattr(drafter, "net", None)
        self.player = player
        self.failed = ""  # why no pieces are captured, where they could not be
        self._static = bool(getattr(drafter, "static", False))
        self._growths: dict[int, Growth] = {}
        self._verifications: dict[int, Verification] = {}

    def run(
        self, shape: TreeSettings, sampling: Sampling, known: int, marks: Marks
    ) -> tuple[DraftTree, Choices]:
        """Draft, verify, accept.

        known  verified tokens: `text.known`, as the host knows it
        """
        text, b = self.text, min(shape.breadth, self.target.embed.weight.shape[0])
        growth = self._growth(b) if self.levels else None
        count = 1 + min(shape.budget, growth.tried(shape.depth)) if growth else 1
        reach = bucket(known + 1 + max(count, (shape.depth - 1) * b, text.rows))
        verification = self._verification(count)
        if not sampling.greedy:
            draws = [uniform(sampling.seed, known + 1 + row) for row in range(text.rows)]
            text.draws.copy_(torch.tensor(draws), non_blocking=True)
        with torch.cuda.device_of(text.known):  # where there are several
            marks.mark()
            if self.levels is not None and growth is not None:
                self._draft(self.levels, growth, verification.nodes, shape, reach)
            marks.mark()
            read = partial(verification.read, reach, drafted=growth is not None)
            self.play(("verify", reach, count), read)
            form = Sampling() if sampling.greedy else replace(sampling, seed=0)  # draws: a buffer
            self.play(("choose", count, form), partial(verification.choose, form))
            self.play(("accept", count), verification.accept)
            marks.mark()
            return verification.tell()

    def _draft(
        self, levels: Levels, growth: Growth, nodes: Nodes, shape: TreeSettings, reach: int
    ) -> None:
        b = growth.breadth
        self.play(("root", reach, b), lambda: growth.begin(levels.root(reach)))
        for level in range(1, shape.depth):
            step = partial(_step, levels, growth, level, reach)
            self.play(("level", level, reach, b), step)
        chosen = partial(nodes.choose, self.text, growth, shape.depth)
        self.play(("tree", shape.depth, b, nodes.count), chosen)

    def play(self, key: Hashable, piece: Callable[[], None]) -> None:
        """Run a piece. One that cannot be captured has run all the same: so does all after it."""
        try:
            self.player.play(key, piece)
        except NotCaptured as error:
            self.player = Plain(self.text.known.device)
            self.failed = (
                f"{self.target.name or 'This target'} cannot be captured as CUDA graphs "
                f"({error}); decoding goes on without them."
            )
            warnings.warn(self.failed, RuntimeWarning, stacklevel=2)

    def _growth(self, breadth: int) -> Growth:
        if breadth not in self._growths:
            device = self.text.known.device
            self._growths[breadth] = Growth(breadth, self.text.rows - 1, self._static, device)
        return self._growths[breadth]

    def _verification(self, count: int) -> Verification:
        if count not in self._verifications:
            nodes = Nodes(count, self.text.known.device)
            self._verifications[count] = Verification(self.target, self.text, nodes)
        return self._verifications[count]


def _step(levels: Levels, growth: Growth, level: int, reach: int) -> None:
    growth.step(level, levels.expand(growth, level, reach))
