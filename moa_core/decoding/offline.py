"""While the target cannot be reached the drafter goes on alone, and this is how it comes back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from moa_core.decoding.clock import Stopwatch
from moa_core.decoding.trace import Event, LinkBack, LinkDown, OfflineToken
from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verifier import LinkLost, Verifier
from moa_core.decoding.verify import Choices, Sampling, sample, target_probs, uniform
from moa_core.drafters.base import Drafter, Stepwise
from moa_core.errors import UserError

T = TypeVar("T")
LOOK = 0.05  # seconds between two looks for the link, where there is nothing else to do


class NoAnswer(Exception):
    """The link stayed lost."""


@dataclass(frozen=True)
class Away:
    """What to do about text written while the link was lost.

    keep      leave it as it is, labelled, and go on after it; else it is a draft like any other,
              which the target verifies as soon as it is back, and heals where it would differ
    patience  seconds to wait for the link when there is no more to write alone
    """

    keep: bool = False
    patience: float = 0.0

    def __post_init__(self) -> None:
        if not self.patience >= 0:
            raise UserError("The patience for a lost link is a number of seconds, from 0 up.")


@dataclass
class Alone:
    """A drafter writing without its target, from the root of a tree that was not answered.

    root, position  the newest sure token, and where it stands
    room            tokens it may write at most
    """

    drafter: Drafter
    sampling: Sampling
    root: int
    position: int
    room: int
    eos_ids: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    _steps: Generator[Tensor, int, None] | None = None

    @property
    def able(self) -> bool:
        """Whether there is more to write, and a drafter that can."""
        ended = bool(self.tokens) and self.tokens[-1] in self.eos_ids
        return isinstance(self.drafter, Stepwise) and len(self.tokens) < self.room and not ended

    def step(self) -> tuple[int, float]:
        """The next token, and the drafter's probability of it."""
        if self._steps is None:
            assert isinstance(self.drafter, Stepwise)
            self._steps = self.drafter.alone(self.root)
            logits = next(self._steps)
        else:
            logits = self._steps.send(self.tokens[-1])
        probs = target_probs(logits[None], self.sampling)
        # The draw that the target will make at this position: so the two agree where they can.
        draw = uniform(self.sampling.seed, self.position + len(self.tokens) + 1)
        token = int(probs.argmax() if self.sampling.greedy else sample(probs, [draw])[0])
        self.tokens.append(token)
        self.log_probs.append(float(torch.log(probs[0, token])))
        return token, float(probs[0, token])

    def close(self) -> None:
        """The drafter returns to what it has observed."""
        if self._steps is not None:
            self._steps.close()

    def chain(self) -> DraftTree:
        """What was written alone, as a draft below the root."""
        return chain(self.root, self.tokens, self.log_probs)

    def after(self, sure: tuple[int, ...]) -> list[int]:
        """What is left of the text, given what the target now says; nothing if they differ."""
        agreed = len(sure) < len(self.tokens) and tuple(self.tokens[: len(sure)]) == sure
        return self.tokens[len(sure) :] if agreed else []


def chain(root: int, tokens: list[int], log_probs: list[float]) -> DraftTree:
    """A draft tree without branches. log_probs: of each token given those before it."""
    count = len(tokens) + 1
    sums = [0.0]
    for value in log_probs:
        sums.append(sums[-1] + value)
    return DraftTree((root, *tokens), tuple(range(-1, count - 1)), tuple(range(count)), tuple(sums))


def asked(
    verifier: Verifier,
    away: Away,
    clock: Stopwatch,
    should_stop: Callable[[], bool],
    question: Callable[[], T],
    alone: Alone | None = None,
    retry: Callable[[], T] | None = None,
) -> Generator[Event, None, T]:
    """Put a question to the target; while its link is lost, go on alone until it is answered.

    Yields what happens on the way. NoAnswer if the person stops the run, or if there is no more to
    write alone and patience ends.

    retry  how the question is put again; None: by the verifier, which remembers it
    """
    try:
        return question()
    except LinkLost as lost:
        clock.lap("network")
        yield LinkDown(lost.silent)
        clock.resume()
    # What a verifier remembers is answered with Choices; T is that wherever there is no retry.
    again: Callable[[], T] = retry or cast(Any, partial(_again, verifier, away, alone))
    began, waited = monotonic(), 0.0
    while True:
        able = alone if alone is not None and alone.able else None
        if verifier.back(LOOK if able is None else 0):
            try:
                answer = again()
            except LinkLost:
                continue
            clock.lap("network")
            yield LinkBack(monotonic() - began, len(alone.tokens) if alone else 0)
            clock.resume()
            return answer
        waited += clock.lap("network")
        if should_stop() or (able is None and waited > away.patience):
            raise NoAnswer
        if able is not None:
            token, prob = able.step()
            place = able.position + len(able.tokens)
            yield OfflineToken(place, token, prob, clock.lap("draft"))
            clock.resume()


def _again(verifier: Verifier, away: Away, alone: Alone | None) -> Choices:
    """The answer to what was asked; or, where offline text is to stay, to that."""
    if alone is not None and alone.tokens and away.keep:
        return verifier.insist(alone.chain(), alone.position)
    return verifier.again()
