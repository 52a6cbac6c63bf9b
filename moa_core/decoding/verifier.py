"""How the decode loop reaches the target: in this process, or across a link."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from moa_core.decoding.trace import Drafted, Event
from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verify import Choices, Sampling, choose

if TYPE_CHECKING:
    from torch import Tensor

    from moa_core.drafters.base import Drafter
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


class Answer(NamedTuple):
    """The target's answer to a tree."""

    choices: Choices
    traffic: Traffic = Traffic()


class VerifiedTokens(NamedTuple):
    """Newly verified tokens and their server outputs. received: its bytes."""

    ids: tuple[int, ...]
    outputs: dict[str, Tensor]
    received: int = 0


class Verifier(Protocol):
    """The target in one run.

    prefill  reads the prompt; returns the target's choice of the next token
    verify   returns the target's choice after each node of a tree
    keep     accepts the root and these nodes of the last tree
    learned  returns the results for the newest tokens: those of the prompt, or those kept last
    """

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Asked[Answer]: ...
    def verify(self, drafted: Drafted) -> Asked[Answer]: ...
    def keep(self, path: Sequence[int]) -> None: ...
    def learned(self) -> Asked[VerifiedTokens]: ...


class LocalVerifier:
    """The target in this process. It answers at once, so it yields no events."""

    def __init__(self, target: Target, drafter: Drafter) -> None:
        self._target, self._drafter = target, drafter
        self._newest: Observation

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Asked[Answer]:
        yield from ()
        self._sampling, root = sampling, DraftTree.only_root(ids[-1])
        logits, self._newest = self._target.prefill(ids, capacity)
        return Answer(choose(logits[None], root, len(ids) - 1, sampling))

    def verify(self, drafted: Drafted) -> Asked[Answer]:
        yield from ()
        with self._target.torch_threads():
            logits = self._target.verify(drafted.tree)
            return Answer(choose(logits, drafted.tree, drafted.position, self._sampling))

    def keep(self, path: Sequence[int]) -> None:
        self._newest = self._target.keep(path)

    def learned(self) -> Asked[VerifiedTokens]:
        yield from ()
        return VerifiedTokens(self._newest.ids, self._drafter.server_outputs(self._newest))
