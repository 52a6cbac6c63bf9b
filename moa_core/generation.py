"""Text as it is decoded, one piece per cycle: what most scripts need from this library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import NamedTuple, cast

from transformers import PreTrainedTokenizerBase

from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.offline import FarTarget
from moa_core.decoding.trace import (
    Drafted,
    Finished,
    LinkBack,
    LinkDown,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import AUTO
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import TokenText, chat_ids, prompt_ids, tokenizer_of

Prompt = str | Sequence[int] | Sequence[Mapping[str, str]]


class Token(NamedTuple):
    """A token. text: special ones by name, "" while a character is incomplete."""

    id: int
    text: str


@dataclass(frozen=True)
class Piece:
    """What one cycle gained. The first piece is the prefill's; the last one ends the run. When the
    link to the target is lost or back, an empty piece says so.

    text      new text; the texts of all pieces make up the whole
    accepted  drafts that the target agreed with
    rejected  the tree's drafts that the target did not agree with
    bonus     the target's own token after them; None if the text ended before it
    lost      whether the link is lost now; None: no change
    reason    in the last piece: eos, length, context, stopped, offline
    trace     in the last piece: the whole run, event by event
    """

    text: str = ""
    accepted: tuple[Token, ...] = ()
    rejected: tuple[Token, ...] = ()
    bonus: Token | None = None
    lost: bool | None = None
    reason: str | None = None
    trace: Trace | None = None

    @property
    def tau(self) -> float | None:
        """Acceptance length of the run: tokens gained per target forward after the prefill."""
        return None if self.trace is None else self.trace.tau

    @property
    def tokens_per_second(self) -> float | None:
        """New tokens over the time of the whole run, prefill included."""
        return None if self.trace is None else self.trace.tokens_per_second


def generate(
    target: Target, drafter: Drafter, prompt: Prompt, settings: Settings | None = None, *,
    raw: bool = False, should_stop: Callable[[], bool] = lambda: False,
    remote: FarTarget | None = None,
) -> Iterator[Piece]:  # fmt: skip
    """Decode a prompt and yield its text as it grows: `decode`, for readers of text.

    prompt    a message, a chat (role and content of each turn), or token ids
    settings  None: greedy, at most 128 tokens, trees that size themselves
    raw       a message goes without the chat template
    should_stop, remote  as in `decode`

    A target without a tokenizer takes token ids, and its pieces have no text. Text written offline
    comes with the cycle that verifies it, or with the last piece. UserError, before the first
    piece, for a prompt that cannot be used.
    """
    settings = settings or Settings(tree=AUTO)
    words = _Words(target.tokenizer)
    ids = _ids(target, prompt, raw)
    trace = Trace(about(target, drafter, settings))
    run = decode(target, drafter, ids, settings, should_stop, remote)
    drafted: Drafted | None = None
    for event in trace.record(run):
        match event:
            case Prefilled():
                (bonus,), text = words.add((event.token,))
                yield Piece(text, bonus=bonus)
            case Drafted():
                drafted = event
            case Verified():
                assert drafted is not None, "a tree is drafted before it is verified"
                yield _cycle(words, drafted, event)
            case LinkDown() | LinkBack():
                yield Piece(lost=isinstance(event, LinkDown))
            case Finished():
                yield Piece(words.rest(trace), reason=event.reason, trace=trace)


def _cycle(words: _Words, drafted: Drafted, verified: Verified) -> Piece:
    tokens, text = words.add(verified.emitted)
    accepted, kept = tokens[: len(verified.path)], {0, *verified.path}
    rejected = [token for node, token in enumerate(drafted.tree.tokens) if node not in kept]
    bonus = tokens[-1] if len(tokens) > len(accepted) else None
    return Piece(text, accepted, tuple(map(words.alone, rejected)), bonus)


def _ids(target: Target, prompt: Prompt, raw: bool) -> Sequence[int]:
    if isinstance(prompt, str):
        return prompt_ids(tokenizer_of(target), prompt, raw)
    try:
        parts = list(prompt)
        if parts and isinstance(parts[0], Mapping):
            return chat_ids(tokenizer_of(target), cast(Sequence[Mapping[str, str]], parts))
        return [*map(index, cast(Sequence[int], parts))]  # numpy's and torch's numbers, too
    except TypeError:
        raise UserError(
            "A prompt is a text, a chat (a list of turns) or a list of token ids."
        ) from None


class _Words:
    """The text of a run's tokens; none without a tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase | None) -> None:
        self._tokenizer = tokenizer
        self._text = None if tokenizer is None else TokenText(tokenizer)
        self._written = ""

    def add(self, ids: Sequence[int]) -> tuple[tuple[Token, ...], str]:
        """The text of each new token, and of all of them."""
        if self._text is None:
            return tuple(Token(one, "") for one in ids), ""
        parts = self._text.push(ids)
        text = "".join(parts)
        self._written += text
        tokens = tuple(
            self.alone(one) if self._text.special(one) else Token(one, part)
            for one, part in zip(ids, parts, strict=True)
        )
        return tokens, text

    def alone(self, token: int) -> Token:
        return Token(token, "" if self._text is None else self._text.alone(token))

    def rest(self, trace: Trace) -> str:
        """At the end: text written offline, and an incomplete character."""
        if self._tokenizer is None:
            return ""
        _, shown = self.add(trace.offline_ids)
        backend = self._tokenizer.backend_tokenizer
        whole: str = backend.decode(trace.output_ids, skip_special_tokens=True)
        known = whole.startswith(self._written)
        return shown + (whole.removeprefix(self._written) if known else "")
