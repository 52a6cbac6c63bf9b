"""A drafter and its target: while the link between them is lost, the drafter continues alone."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Protocol, TypeVar

from torch import Tensor

from moa_core.decoding.settings import Text
from moa_core.decoding.trace import Drafted, LinkBack, LinkDown, OfflineToken, Stopwatch
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verifier import Answer, Asked, LinkLost, Traffic, Unanswered
from moa_core.decoding.verify import Choices, Sampling, sample, target_probs, uniform
from moa_core.drafters.base import Drafter, ServerOutputs, Stepwise

T = TypeVar("T")
LOOK = 0.05  # seconds between two checks of the link when there is nothing else to do


class FarTarget(Protocol):
    """The target's end of a link. A request may raise LinkLost; it is repeated when the link is
    back.

    traffic      of the last request
    verify       for a tree whose root is at a position
    server_outputs  of the newest tokens: those of the prompt, or those kept last
    back         whether a lost link is back; waits for up to `seconds`
    """

    @property
    def traffic(self) -> Traffic: ...
    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices: ...
    def verify(self, tree: DraftTree, position: int) -> Choices: ...
    def keep(self, path: Sequence[int]) -> None: ...
    def server_outputs(self) -> ServerOutputs: ...
    def back(self, seconds: float) -> bool: ...


@dataclass
class Alone:
    """A drafter writing without its target, below the newest token of a text, the root of a tree
    that got no answer."""

    drafter: Drafter
    sampling: Sampling
    text: Text
    tokens: list[int] = field(default_factory=list)
    _steps: Generator[Tensor, int, None] | None = None

    @property
    def able(self) -> bool:
        """Whether there is more to write and the drafter can write it."""
        ended = bool(self.tokens) and self.tokens[-1] in self.text.eos_ids
        room = len(self.tokens) < self.text.room
        return isinstance(self.drafter, Stepwise) and room and not ended

    def step(self) -> OfflineToken:
        """Write the next token. The caller measures its seconds."""
        if self._steps is None:
            assert isinstance(self.drafter, Stepwise)
            self._steps = self.drafter.alone(self.text.ids[-1])
            logits = next(self._steps)
        else:
            logits = self._steps.send(self.tokens[-1])
        probs = target_probs(logits[None], self.sampling)
        place = self.text.position + len(self.tokens) + 1
        # The same draw that the target will make at this position, so that the two can agree.
        draw = uniform(self.sampling.seed, place)
        row = int(probs.argmax() if self.sampling.greedy else sample(probs, [draw])[0])
        words = self.drafter.vocabulary
        token = row if words is None else int(words[row])
        self.tokens.append(token)
        return OfflineToken(place, token, float(probs[0, row]), 0.0)

    def close(self) -> None:
        """The drafter returns to what it has observed."""
        if self._steps is not None:
            self._steps.close()

    def after(self, sure: tuple[int, ...]) -> list[int]:
        """The text after the tokens that the target now confirms; empty if they differ."""
        agreed = len(sure) < len(self.tokens) and tuple(self.tokens[: len(sure)]) == sure
        return self.tokens[len(sure) :] if agreed else []


class Pair:
    """A drafter and its target, here or across a link, as one object for the decode loop.

    Text written offline becomes the next draft, as long as the target may agree with it.

    offline  whether the newest proposal is such text
    """

    def __init__(
        self, drafter: Drafter, far: FarTarget, patience: float, sampling: Sampling, text: Text,
        clock: Stopwatch, should_stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.open, self.observe, self.learn = drafter.open, drafter.observe, drafter.learn
        self.tli, self.offline = drafter.tli, False
        self._drafter, self._far, self._patience = drafter, far, patience
        self._sampling, self._text = sampling, text
        self._clock, self._should_stop = clock, should_stop
        self._unverified: list[int] = []

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        self.offline = bool(self._unverified)
        if self.offline:
            return DraftTree.chain(token, self._unverified, [0.0] * len(self._unverified))
        return self._drafter.propose(token, settings)

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Asked[Answer]:
        """The target reads the prompt: its choice of the next token."""
        self._ids = tuple(ids)
        return (yield from self._ask(lambda: self._far.prefill(ids, capacity, sampling)))

    def verify(self, drafted: Drafted) -> Asked[Answer]:
        """The target's choice after each node of a tree."""
        tree, position = drafted.tree, drafted.position
        alone = self._alone = Alone(self._drafter, self._sampling, self._text)
        answer = yield from self._ask(lambda: self._far.verify(tree, position), alone)
        alone.close()
        self._tree, self._choices = tree, answer[0].tokens
        return answer

    def keep(self, path: Sequence[int]) -> None:
        """Accept the root and these nodes of the last tree."""
        self._far.keep(path)
        nodes = [0, *path]
        self._ids = tuple(self._tree.tokens[node] for node in nodes)
        bonus = self._choices[nodes[-1]]
        self._unverified = self._alone.after((*self._ids[1:], bonus))

    def newest(self) -> Asked[tuple[tuple[int, ...], ServerOutputs, int]]:
        """The newest tokens, which are the prompt's or those kept last, their server outputs, and
        the size of these in bytes."""
        outputs, traffic = yield from self._ask(self._far.server_outputs)
        return self._ids, outputs, traffic.received

    # ---- a link that may be lost ----

    def _ask(
        self, question: Callable[[], T], alone: Alone | None = None
    ) -> Asked[tuple[T, Traffic]]:
        """Send a request to the target. While the link is lost, write alone until it answers.

        Unanswered if the user stops the run, or if there is no more to write alone and the
        patience is used up.
        """
        clock, waited = self._clock, 0.0
        try:
            return question(), self._far.traffic
        except LinkLost as lost:
            clock.lap("network")
            yield LinkDown(lost.silent)
        began = monotonic()
        while not self._should_stop():
            writer = alone if alone is not None and alone.able else None
            back = self._far.back(0 if writer else LOOK)
            spent = clock.lap("network")
            if back:
                try:
                    found = question()
                except LinkLost:
                    spent += clock.lap("network")
                else:
                    yield LinkBack(monotonic() - began, len(alone.tokens) if alone else 0)
                    return found, self._far.traffic
            if writer:
                written = writer.step()
                yield replace(written, seconds=clock.lap("draft"))
            elif (waited := waited + spent) > self._patience:
                raise Unanswered("offline")
        raise Unanswered("stopped")
