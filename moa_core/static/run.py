"""A run in static shapes, as the decode loop wants it: drafter and verifier in one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch

from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verifier import Learnt, Toll
from moa_core.decoding.verify import Choices, Sampling, choose
from moa_core.drafters.base import Drafter, ServerHalf
from moa_core.model.target import Observation, Target, is_split
from moa_core.static.cycle import METHODS, Cycle
from moa_core.static.marks import Marks
from moa_core.static.players import PLAYERS
from moa_core.static.seats import taken


def suits(target: Target, drafter: Drafter) -> bool:
    """Whether there is a player for the target's device, and static shapes for the method."""
    known = type(drafter) in METHODS and target.device.type in PLAYERS
    return known and target.graphs and not is_split(target.model)


class Run(Drafter):
    """Proposes a tree and has it verified in one go; the answer waits for the loop to ask."""

    toll = Toll()

    def __init__(self, drafter: Drafter, shape: TreeSettings) -> None:
        self._drafter = drafter
        self._shape = shape
        self.name, self.tli, self.tree = drafter.name, drafter.tli, drafter.tree
        self._known = 0  # verified tokens
        self._prompt: Observation | None = None
        self._tree: DraftTree | None = None
        self._choices: Choices | None = None
        self._stack = ExitStack()

    def open(self, target: Target, capacity: int) -> None:
        self._target = target
        seat = taken(target, self._drafter, self._shape.depth + 1, capacity)
        self._cycle: Cycle = self._stack.enter_context(seat)

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        """As `Target.prefill`, into the memory that graphs know."""
        self._sampling, target = sampling, self._target
        cache = self._cycle.text.slots.cache
        cache.truncate(0)
        hidden = target.embed(torch.tensor([ids], device=target.device))
        places = torch.arange(len(ids), device=target.device)[None]
        hidden = target.read_layers(hidden, places, None, cache)[0]
        cache.advance(len(ids))
        self._prompt = Observation(tuple(ids), 0, hidden, cache)
        only_root = DraftTree.only_root(0)
        self._choices = choose(target.head(hidden[-1:]), only_root, len(ids) - 1, sampling)
        return self._choices

    def keep(self, path: Sequence[int]) -> Learnt:
        """What the device has kept already."""
        if self._prompt is not None:
            return Learnt(self._prompt.ids, dict)
        assert self._tree is not None
        ids = tuple(self._tree.tokens[node] for node in (0, *path))
        self._known += len(ids)
        return Learnt(ids, dict)

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        if self._prompt is None:
            return  # the next cycle's first piece does it
        assert self._choices is not None
        if self._cycle.levels:
            self._cycle.levels.prefill(self._prompt)
        self._cycle.text.begin(ids, self._prompt.hidden[-1:], self._choices.tokens[0])
        self._known, self._prompt = len(ids), None

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        marks = Marks(self._target.device)
        found = self._cycle.run(settings, self._sampling, self._known, marks)
        self._tree, self._choices = found
        self.ahead = marks.seconds()[1]
        return self._tree

    def verify(self, tree: DraftTree, position: int) -> Choices:
        """What was found while drafting."""
        assert tree is self._tree and position == self._known and self._choices is not None
        return self._choices

    insist = verify

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        self._drafter.learn(drafted, verified)

    def close(self) -> None:
        self._stack.close()

    def back(self, seconds: float) -> bool:
        return True

    def again(self) -> Choices:
        raise NotImplementedError("a target in this process always answers")
