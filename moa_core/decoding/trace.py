"""Events of a run, and the trace that keeps them.

Trace files are untrusted: reading one checks types, and that its trees are trees.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields
from time import perf_counter
from typing import Any, NoReturn, get_args

import msgspec

from moa_core.decoding.tree import DraftTree, Real, Whole
from moa_core.errors import UserError

VERSION = 1
PHASES = ("prefill", "draft", "verify", "network", "other")
SHORTEST = 1e-9  # smallest seconds to divide by
DEEPEST = 16  # deepest nesting in a file
NOT_ONE = "This file is not a trace of this program."


class Stopwatch:
    """Time by phase."""

    def __init__(self) -> None:
        self.totals = dict.fromkeys(PHASES, 0.0)
        self._mark = self._paused = perf_counter()

    def lap(self, phase: str, network: float = 0.0) -> float:
        """Charge the time since the last lap to a phase, and return it.

        network  seconds of that time to charge to the network instead
        """
        now = perf_counter()
        spent, self._mark = now - self._mark - network, now
        self.totals[phase] += spent
        self.totals["network"] += network
        return spent

    def pause(self) -> None:
        """The reader of the events takes over: its time does not count."""
        self._paused = perf_counter()

    def resume(self) -> None:
        """The loop goes on; a lap that was begun before the pause goes on as well."""
        self._mark += perf_counter() - self._paused


@dataclass(frozen=True)
class Prefilled:
    """The target has read the prompt and chosen the first token."""

    prompt_ids: tuple[Whole, ...]
    token: Whole
    prob: Real  # the target's probability of that token
    seconds: Real
    network_seconds: Real = 0.0  # transfer to the target and back, included in seconds
    sent: Whole = 0  # bytes
    received: Whole = 0


@dataclass(frozen=True)
class Drafted:
    """A cycle's first half: the drafter proposes a tree below the newest token."""

    cycle: Whole  # from 0
    position: Whole  # of the tree's root in the sequence
    tree: DraftTree
    seconds: Real
    tli: Whole | None = None  # N of the MoA drafter that proposed it
    offline: bool = False  # not a proposal, but text written while the link was lost
    received: Whole = 0  # bytes of the prompt's server outputs, which come before the first draft


@dataclass(frozen=True)
class Verified:
    """A cycle's second half: the target's verdict on the tree."""

    cycle: Whole
    path: tuple[Whole, ...]  # accepted nodes of the tree, root not counted
    bonus: Whole  # the target's own token after the last accepted one
    choices: tuple[Whole, ...]  # the target's token after each node
    choice_probs: tuple[Real, ...]  # its probability of that token
    draft_probs: tuple[Real, ...]  # its probability of each node's token, 1 for the root
    emitted: tuple[Whole, ...]  # accepted drafts and bonus, cut at eos and the requested length
    seconds: Real  # verification alone
    other_seconds: Real  # acceptance, cache and bookkeeping of this cycle
    network_seconds: Real = 0.0  # transfer to the target and back
    sent: Whole = 0  # bytes
    received: Whole = 0

    @property
    def gained(self) -> int:
        """Tokens gained by this verification, bonus included, before any cut."""
        return len(self.path) + 1


@dataclass(frozen=True)
class LinkDown:
    """The target stopped answering: from here the drafter continues alone, if it can."""

    seconds: Real  # of silence


@dataclass(frozen=True)
class OfflineToken:
    """A token that the drafter wrote alone. Tokens that the target verifies later replace it."""

    position: Whole  # in the sequence
    token: Whole
    prob: Real  # the drafter's probability of it
    seconds: Real


@dataclass(frozen=True)
class LinkBack:
    """The target answers again. tokens: how many were written alone."""

    seconds: Real  # since the link was down
    tokens: Whole


@dataclass(frozen=True)
class Finished:
    """The end. Reason: eos, length (the requested number of tokens), context (no room), stopped,
    offline (the link stayed lost)."""

    reason: str
    seconds: dict[str, Real] = field(default_factory=dict)  # by phase


TREE = asdict(DraftTree.only_root(0))  # its fields
Event = Prefilled | Drafted | Verified | LinkDown | OfflineToken | LinkBack | Finished
EVENTS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}


def _rate(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if seconds > SHORTEST and tokens > 0 else None


@dataclass
class Trace:
    """One run: its setup and all its events. It can be replayed without a model."""

    about: dict[str, Any] = field(default_factory=dict)  # target, drafter, settings, machine
    events: list[Event] = field(default_factory=list)

    def record(self, events: Iterable[Event]) -> Iterator[Event]:
        """Pass events through and keep them."""
        for event in events:
            self.events.append(event)
            yield event

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def cycles(self) -> list[tuple[Drafted, Verified]]:
        """Each verification with the tree it answered, in order."""
        trees = {event.cycle: event for event in self.of(Drafted)}  # the last one, if it changed
        return [(trees[one.cycle], one) for one in self.of(Verified) if one.cycle in trees]

    @property
    def output_ids(self) -> list[int]:
        """New tokens, up to eos (included) and the requested length."""
        return [*self.verified_ids, *self.offline_ids]

    @property
    def verified_ids(self) -> list[int]:
        """New tokens that the target has verified."""
        first = [event.token for event in self.of(Prefilled)]
        return first + [token for event in self.of(Verified) for token in event.emitted]

    @property
    def offline_ids(self) -> list[int]:
        """Tokens at the end that were written offline and not verified since."""
        tokens: list[int] = []
        for event in self.events:
            if isinstance(event, OfflineToken):
                tokens.append(event.token)
            elif isinstance(event, Verified):
                tokens.clear()
        return tokens

    @property
    def accepted_lengths(self) -> list[int]:
        """New tokens of each verification, bonus included."""
        return [len(event.emitted) for event in self.of(Verified)]

    @property
    def target_calls(self) -> int:
        """Target forwards, the prefill included."""
        return len(self.of(Prefilled)) + len(self.of(Verified))

    @property
    def tau(self) -> float | None:
        """Acceptance length: new tokens per target forward after the prefill, bonus included."""
        lengths = self.accepted_lengths
        return sum(lengths) / len(lengths) if lengths else None

    @property
    def reason(self) -> str | None:
        """Why it ended; None while it runs."""
        ends = self.of(Finished)
        return ends[-1].reason if ends else None

    @property
    def seconds(self) -> dict[str, float]:
        """Time in the decode loop by phase; time spent showing events is not counted."""
        ends = self.of(Finished)
        if ends:
            return dict(ends[-1].seconds)
        verified = self.of(Verified)
        return {
            "prefill": sum(event.seconds for event in self.of(Prefilled)),
            "draft": sum(event.seconds for event in self.of(Drafted)),
            "verify": sum(event.seconds for event in verified),
            "network": sum(event.network_seconds for event in verified),
            "other": sum(event.other_seconds for event in verified),
        }

    @property
    def tokens_per_second(self) -> float | None:
        """New tokens over the whole run's time, the prefill included."""
        return _rate(len(self.output_ids), sum(self.seconds.values()))

    @property
    def decode_tokens_per_second(self) -> float | None:
        """New tokens over the time after the prefill, the prefill's own first token left out."""
        seconds = sum(value for phase, value in self.seconds.items() if phase != "prefill")
        return _rate(len(self.output_ids) - 1, seconds)

    def to_json(self) -> str:
        events = [{"event": type(event).__name__, **asdict(event)} for event in self.events]
        whole = {"version": VERSION, "about": plain(self.about), "events": events}
        return json.dumps(whole, default=float)  # numpy's numbers, in settings

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read a trace back, whoever made it. UserError if it is not one of ours, or damaged."""
        try:
            data = json.loads(text, parse_constant=_no_number)
            if (version := data["version"]) != VERSION:  # another one may have other parts
                raise UserError(
                    f"This trace has version {version!r:.20}; this program reads {VERSION}."
                )
            about = msgspec.convert(plain(data["about"]), dict[str, Any])
            events = [_event(item) for item in msgspec.convert(data["events"], list[Any])]
        except UserError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(NOT_ONE) from error
        drafted: Drafted | None = None
        for event in events:
            if isinstance(event, Drafted):
                drafted = event
            elif isinstance(event, Verified) and not (
                drafted and drafted.cycle == event.cycle and fits(drafted, event)
            ):
                raise UserError(f"This trace is damaged: its cycle {event.cycle + 1} does not fit.")
        return cls(about, events)


def fits(drafted: Drafted, verified: Verified) -> bool:
    """Whether a tree is valid and the verification belongs to it."""
    tree, count = drafted.tree, len(drafted.tree)
    columns = (
        tree.parents, tree.depths, tree.log_probs, verified.choices, verified.choice_probs,
        verified.draft_probs,
    )  # fmt: skip
    if not count or any(len(column) != count for column in columns):
        return False
    path, above = verified.path, list(enumerate(tree.parents))[1:]
    return (
        (tree.parents[0], tree.depths[0]) == (-1, 0)
        and all(0 <= parent < node for node, parent in above)
        and all(tree.depths[node] == tree.depths[up] + 1 for node, up in above)
        # No child is more probable than its parent, except by rounding.
        and all(tree.log_probs[node] <= tree.log_probs[up] + 0.001 for node, up in above)
        and all(0 < node < count for node in path)
        and [tree.parents[node] for node in path] == [0, *path][:-1]
    )


def plain(value: Any, deepest: int = DEEPEST) -> Any:
    """The same value without lone surrogates in its text. ValueError if it is nested too deeply."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict | list | tuple):
        if not deepest:
            raise ValueError("too deep")
        if isinstance(value, dict):
            return {plain(key): plain(one, deepest - 1) for key, one in value.items()}
        return [plain(one, deepest - 1) for one in value]
    return value


def _event(data: dict[str, Any]) -> Event:
    """An event from its fields. Those with a default may be missing, as in older traces."""
    kind = EVENTS[data.pop("event")]
    known = {entry.name for entry in fields(kind)}
    needed = {entry.name for entry in fields(kind) if entry.default is MISSING}
    if not needed <= data.keys() <= known or data.get("tree", TREE).keys() != TREE.keys():
        raise ValueError(f"fields of {kind.__name__} do not match")
    try:
        event: Event = msgspec.convert(data, kind)
    except msgspec.ValidationError:
        raise UserError(f"This trace is damaged: a {kind.__name__} event is malformed.") from None
    if isinstance(event, Finished):
        spent = {phase: event.seconds[phase] for phase in PHASES if phase in event.seconds}
        return Finished(plain(event.reason), spent)
    return event


def _no_number(name: str) -> NoReturn:
    raise UserError(f"This trace is damaged: {name} is not a number.")
