"""Where the target is asked: beside the loop, or across a link that may be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verify import Choices, Sampling, choose
from moa_core.drafters.base import Drafter, ServerHalf
from moa_core.model.target import Observation, Target


class LinkLost(Exception):
    """The target was asked, and nothing was heard of it for `silent` seconds."""

    def __init__(self, silent: float) -> None:
        super().__init__(f"nothing heard for {silent:.1f} s")
        self.silent = silent


@dataclass(frozen=True)
class Toll:
    """What the way to the target and back took: seconds beside its work, bytes each way."""

    seconds: float = 0.0
    sent: int = 0
    received: int = 0


@dataclass(frozen=True)
class Learnt:
    """Newly verified tokens, and on demand the server half that goes with them."""

    ids: tuple[int, ...]
    half: Callable[[], ServerHalf]


class Verifier(Protocol):
    """What the decode loop asks of the target. Any question may raise LinkLost."""

    @property
    def toll(self) -> Toll:
        """Of the last question."""

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        """Read the prompt; the target's choice of the token after it."""

    def verify(self, tree: DraftTree, position: int) -> Choices:
        """The target's choice after each node of a tree, whose root stands at a position."""

    def insist(self, tree: DraftTree, position: int) -> Choices:
        """The same, for a chain whose tokens all stay, whatever the target thinks of them."""

    def keep(self, path: Sequence[int]) -> Learnt:
        """Accept the root and these nodes; after the prefill, with an empty path, the prompt."""

    def back(self, seconds: float) -> bool:
        """Whether a lost link is there again; looks for at most so long."""

    def again(self) -> Choices:
        """The answer to the last question, after the link was lost and is back."""


class Beside:
    """The target in this process."""

    toll = Toll()

    def __init__(self, target: Target, drafter: Drafter) -> None:
        self._target = target
        self._drafter = drafter
        self._prompt: Observation | None = None

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        self._sampling = sampling
        logits, self._prompt = self._target.prefill(ids, capacity)
        return choose(logits[None], DraftTree.only_root(0), len(ids) - 1, sampling)

    def verify(self, tree: DraftTree, position: int) -> Choices:
        return choose(self._target.verify(tree), tree, position, self._sampling)

    insist = verify

    def keep(self, path: Sequence[int]) -> Learnt:
        observation, self._prompt = self._prompt or self._target.keep(path), None
        return Learnt(observation.ids, lambda: self._drafter.server_half(observation))

    def back(self, seconds: float) -> bool:
        return True

    def again(self) -> Choices:
        raise NotImplementedError("a target in this process always answers")
