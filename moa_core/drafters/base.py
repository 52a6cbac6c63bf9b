"""The interface every drafting method implements."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from torch import Tensor

from moa_core.target import Observation, Target
from moa_core.trace import Drafted, Verified
from moa_core.tree import DraftTree, TreeSettings

ServerHalf = dict[str, Tensor]


class Drafter(ABC):
    """Proposes draft trees from what the target has let it observe.

    What it needs of the target comes in two halves. The server half is a pure function of the
    target's outputs and may run beside it; the client half is everything else. Weights are shared
    between forks; caches belong to one decoding run.
    """

    name: str = "drafter"
    tree: TreeSettings = TreeSettings()  # the default one; measured, where its config has one
    tli: int | None = None  # N of the newest proposal; None where there is no N

    def fork(self) -> Self:
        """The same weights, for a run of its own."""
        return copy.copy(self)

    @abstractmethod
    def open(self, target: Target, capacity: int) -> None:
        """Begin a run. capacity: slots for every token it may verify and one grown draft tree."""

    def server_half(self, observation: Observation) -> ServerHalf:
        """What must travel to the client for these newly verified tokens."""
        return {}

    @abstractmethod
    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        """Take in newly verified tokens, in order, with their server half."""

    @abstractmethod
    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        """Draft below `token`, the newest one, which the target has chosen but not yet read."""

    def learn(self, drafted: Drafted, verified: Verified) -> None:  # noqa: B027  most do not
        """What came of the last proposal, times included, for drafters that adapt to it."""


class Vanilla(Drafter):
    """Plain decoding in the same loop: proposes nothing."""

    name = "vanilla"

    def open(self, target: Target, capacity: int) -> None:
        pass

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        pass

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        return DraftTree.only_root(token)
