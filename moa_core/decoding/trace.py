"""What happens while decoding: events, and the trace that keeps them for whoever shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from moa_core.decoding.tree import DraftTree
from moa_core.loading.untrusted import plain

VERSION = 1
PHASES = ("prefill", "draft", "verify", "network", "other")
SHORTEST = 1e-9  # seconds by which something can be divided


@dataclass(frozen=True)
class Prefilled:
    """The target has read the prompt and chosen the first token."""

    prompt_ids: tuple[int, ...]
    token: int
    prob: float  # the target's probability of that token
    seconds: float
    network_seconds: float = 0.0  # of them, on the way to the target and back
    sent: int = 0  # bytes
    received: int = 0


@dataclass(frozen=True)
class Drafted:
    """A cycle's first half: the drafter proposes a tree below the newest token."""

    cycle: int  # from 0
    position: int  # of the tree's root in the sequence
    tree: DraftTree
    seconds: float
    tli: int | None = None  # N of the MoA drafter that proposed it: one may choose anew
    offline: bool = False  # no proposal: what was written while the link was lost
    received: int = 0  # bytes of the prompt's server half, which come before the first draft


@dataclass(frozen=True)
class Verified:
    """A cycle's second half: what the target made of the tree."""

    cycle: int
    path: tuple[int, ...]  # accepted nodes of the tree, root not counted
    bonus: int  # the target's own token after the last accepted one
    choices: tuple[int, ...]  # the target's token after each node
    choice_probs: tuple[float, ...]  # its probability of that token
    draft_probs: tuple[float, ...]  # its probability of each node's token, 1 for the root
    emitted: tuple[int, ...]  # accepted drafts and bonus, cut at eos and at the length asked for
    seconds: float  # verification alone
    other_seconds: float  # acceptance, cache and bookkeeping of this cycle
    network_seconds: float = 0.0  # on the way to the target and back
    sent: int = 0  # bytes
    received: int = 0
    kept: bool = False  # the path stays though the target was not asked: it was written offline

    @property
    def gained(self) -> int:
        """Tokens gained by this verification, bonus included, before any cut."""
        return len(self.path) + 1


@dataclass(frozen=True)
class LinkDown:
    """Nothing was heard of the target: from here the drafter goes on alone, if it can."""

    seconds: float  # of silence


@dataclass(frozen=True)
class OfflineToken:
    """A token that the drafter wrote alone. What the target verifies later takes its place."""

    position: int  # in the sequence
    token: int
    prob: float  # the drafter's probability of it
    seconds: float


@dataclass(frozen=True)
class LinkBack:
    """The target answers again. tokens: written alone meanwhile."""

    seconds: float  # since the link was down
    tokens: int


@dataclass(frozen=True)
class Finished:
    """The end. Reason: eos, length (as many tokens as asked for), context (no room), stopped,
    offline (the link stayed lost)."""

    reason: str
    seconds: dict[str, float] = field(default_factory=dict)  # by phase


Event = Prefilled | Drafted | Verified | LinkDown | OfflineToken | LinkBack | Finished
EVENTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Prefilled, Drafted, Verified, LinkDown, OfflineToken, LinkBack, Finished)
}


def _rate(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if seconds > SHORTEST and tokens > 0 else None


@dataclass
class Trace:
    """One run: how it was set up and everything that happened. Replays without a model."""

    about: dict[str, Any] = field(default_factory=dict)  # target, drafter, settings, machine
    events: list[Event] = field(default_factory=list)

    def record(self, events: Iterable[Event]) -> Iterator[Event]:
        """Pass events through, keeping them."""
        for event in events:
            self.events.append(event)
            yield event

    def of(self, kind: type) -> list[Any]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def cycles(self) -> list[tuple[Drafted, Verified]]:
        """Each verification with the tree it answered, in order."""
        trees = {event.cycle: event for event in self.of(Drafted)}  # the last one, if it changed
        return [(trees[one.cycle], one) for one in self.of(Verified) if one.cycle in trees]

    @property
    def output_ids(self) -> list[int]:
        """New tokens, cut at eos (kept) and at the length asked for."""
        return [*self.verified_ids, *self.offline_ids]

    @property
    def verified_ids(self) -> list[int]:
        """New tokens that the target has answered for."""
        first = [event.token for event in self.of(Prefilled)]
        return first + [token for event in self.of(Verified) for token in event.emitted]

    @property
    def offline_ids(self) -> list[int]:
        """Tokens at the end that were written offline, and not verified since."""
        tokens: list[int] = []
        for event in self.events:
            if isinstance(event, OfflineToken):
                tokens.append(event.token)
            elif isinstance(event, Verified):
                tokens.clear()
        return tokens

    @property
    def accepted_lengths(self) -> list[int]:
        """Tokens gained per verification, bonus included; the last one uncut."""
        return [event.gained for event in self.of(Verified)]

    @property
    def choices(self) -> list[int | None]:
        """TLI's N in each cycle; None for drafters that have none."""
        return [event.tli for event in self.of(Drafted)]

    @property
    def target_calls(self) -> int:
        """Target forwards, the prefill included."""
        return len(self.of(Prefilled)) + len(self.of(Verified))

    @property
    def tau(self) -> float | None:
        """Acceptance length: tokens gained per target forward after the prefill, bonus included."""
        lengths = self.accepted_lengths
        return sum(lengths) / len(lengths) if lengths else None

    @property
    def reason(self) -> str | None:
        """Why it ended, None while it has not."""
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
        """The trace as one JSON object, versioned."""
        events = [{"event": type(event).__name__, **asdict(event)} for event in self.events]
        return json.dumps({"version": VERSION, "about": plain(self.about), "events": events})

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read a trace back, whoever made it. UserError if it is not one of ours, or damaged."""
        from moa_core.decoding.trace_file import read

        return cls(*read(text))
