"""Text as it is decoded, one piece per cycle: what most scripts need from this library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import NamedTuple, cast

from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.offline import FarTarget
from moa_core.decoding.trace import Drafted, Finished, Prefilled, Trace, Verified
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
    """What one cycle gained. The first piece is the prefill's; the last one ends the run.

    text      new text; the texts of all pieces make up the whole
    accepted  drafts that the target agreed with
    rejected  all other drafts of the cycle's tree
    bonus     the target's own token after them; None if the text ended before it
    reason    in the last piece: eos, stop (a stop string), length, context, stopped, offline
    trace     in the last piece: the whole run, event by event
    """

    text: str = ""
    accepted: tuple[Token, ...] = ()
    rejected: tuple[Token, ...] = ()
    bonus: Token | None = None
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
    stop: str | Sequence[str] = (), raw: bool = False,
    should_stop: Callable[[], bool] = lambda: False, remote: FarTarget | None = None,
) -> Iterator[Piece]:  # fmt: skip
    """Decode a prompt and yield its text as it grows: `decode`, for readers of text.

    prompt    a message, a chat (role and content of each turn), or token ids
    settings  None: greedy, at most 128 tokens, trees that size themselves
    stop      strings that end the text, which is cut before the first one to be complete
    raw       a message goes without the chat template
    should_stop, remote  as in `decode`

    A target without a tokenizer takes token ids, and its pieces have no text. Text written offline
    comes with the cycle that verifies it, or with the last piece. UserError, before the first
    piece, for a prompt or a stop string that cannot be used.
    """
    settings = settings or Settings(tree=AUTO)
    words = _Words(target, (stop,) if isinstance(stop, str) else tuple(stop))
    ids = _ids(target, prompt, raw)
    trace = Trace(about(target, drafter, settings))
    ends = words.stops
    run = decode(target, drafter, ids, settings, lambda: ends.found or should_stop(), remote)
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
            case Finished():
                reason = "stop" if ends.found else event.reason
                yield Piece(words.rest(trace), reason=reason, trace=trace)


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


class StopStrings:
    """Passes text on up to a stop string, and holds back text that may begin one.

    However the text is split, it ends at the stop string that is complete first; if two end at the
    same place, at the longer one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise UserError("A stop string has at least one character.")
        self.found = False
        self._stops = stops
        self._held = ""

    def push(self, text: str) -> str:
        """The text that can be shown after this addition."""
        if self.found:
            return ""
        self._held += text
        places = [(at + len(one), at) for one in self._stops if (at := self._held.find(one)) >= 0]
        self.found = bool(places)
        cut = min(places)[1] if places else len(self._held) - self._begun()
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def rest(self) -> str:
        """Text still held back at the end."""
        return "" if self.found else self._held

    def _begun(self) -> int:
        """How many characters at the end may belong to a stop string."""
        longest = max(map(len, self._stops), default=1) - 1
        counts = range(min(longest, len(self._held)), 0, -1)
        ends = (self._held[-count:] for count in counts)
        return next((len(end) for end in ends if any(s.startswith(end) for s in self._stops)), 0)


class _Words:
    """The text of a run's tokens, cut at stop strings; none without a tokenizer."""

    def __init__(self, target: Target, stops: Sequence[str]) -> None:
        self.stops = StopStrings(stops)
        self._tokenizer = tokenizer_of(target) if stops else target.tokenizer
        self._text = None if self._tokenizer is None else TokenText(self._tokenizer)
        self._written = ""  # before any cut

    def add(self, ids: Sequence[int]) -> tuple[tuple[Token, ...], str]:
        """The text of each new token, and what can be shown of it."""
        if self._text is None:
            return tuple(Token(one, "") for one in ids), ""
        parts = self._text.push(ids)
        self._written += "".join(parts)
        tokens = tuple(
            self.alone(one) if self._text.special(one) else Token(one, part)
            for one, part in zip(ids, parts, strict=True)
        )
        return tokens, self.stops.push("".join(parts))

    def alone(self, token: int) -> Token:
        return Token(token, "" if self._text is None else self._text.alone(token))

    def rest(self, trace: Trace) -> str:
        """At the end: text written offline, an incomplete character, and text held back."""
        if self._tokenizer is None:
            return ""
        _, shown = self.add(trace.offline_ids)
        backend = self._tokenizer.backend_tokenizer
        whole: str = backend.decode(trace.output_ids, skip_special_tokens=True)
        if whole.startswith(self._written):
            shown += self.stops.push(whole.removeprefix(self._written))
        return shown + self.stops.rest()
