"""How the decode loop reaches the target: in this process, or across a link."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from moa_core.decoding.trace import Event
from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verify import Choices, Sampling, choose
from moa_core.drafters.base import Drafter, ServerOutputs
from moa_core.model.target import Observation, Target

T = TypeVar("T")
Asked: TypeAlias = Generator[Event, None, T]  # yields events until the answer is there


class LinkLost(Exception):
    """The target did not answer for `silent` seconds."""

    def __init__(self, silent: float) -> None:
        super().__init__(f"nothing heard for {silent:.1f} s")
        self.silent = silent


class Unanswered(Exception):
    """No answer will come. reason: why the run ends, as in `Finished`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Traffic(NamedTuple):
    """The transfer cost of an answer: seconds in transit, and bytes each way."""

    seconds: float = 0.0
    sent: int = 0
    received: int = 0


Answer: TypeAlias = tuple[Choices, Traffic]


class NearTarget:
    """The target in this process: a `FarTarget` that always answers."""

    traffic = Traffic()

    def __init__(self, target: Target, drafter: Drafter) -> None:
        self._target, self._drafter = target, drafter
        self.newest: Observation  # of the prompt, or of the tokens kept last

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        self._drafter.open_server(self._target, capacity)
        self._sampling, root = sampling, DraftTree.only_root(ids[-1])
        logits, self.newest = self._target.prefill(ids, capacity)
        return choose(logits[None], root, len(ids) - 1, sampling)

    def verify(self, tree: DraftTree, position: int) -> Choices:
        with self._target.torch_threads():
            return choose(self._target.verify(tree), tree, position, self._sampling)

    def keep(self, path: Sequence[int]) -> None:
        self.newest = self._target.keep(path)

    def server_outputs(self) -> ServerOutputs:
        return self._drafter.server_outputs(self.newest)

    def back(self, seconds: float) -> bool:
        return True
