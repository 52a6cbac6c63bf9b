"""A run's events as lines for the page, which draws them (lane.js).

A token is [text, draft probability, target probability, special]. Lines, in order:

    {"run": id, "by": method and tree, "method", "label", "colour", "prompt"}    a new run
    {"first": token, "at": position, "s": seconds so far}   after the prefill
    {"cycle": i, "at": root's position, "s": seconds so far, "ms": [draft, verify, rest],
     "accepted": [token], "bonus": token or null,           after each verification
     "tree": {...}}                                         null without drafts
    {"down": seconds}                                       the link is lost, after this silence
    {"offline": token, "at": position, "s": seconds}        written offline; replaces what is there
    {"back": seconds, "tokens": n}                          the link is back
    {"end": reason}                                         or error

A tree has a column per property of its nodes, the root first: "texts", "parents",
"draft" and "target", their odds after the node's parent in ten-thousandths; "special", some nodes;
"path", the accepted ones; "bonus", the target's own token, and its odds.

A cycle replaces offline tokens. "confirmed" counts its tokens that had been written alone as well,
"changed" the offline tokens after them that now go. An "end" may say how many offline tokens are
"dropped".
"""

from collections.abc import Callable, Iterable, Iterator
from secrets import token_hex
from time import monotonic
from typing import Any

from demo.common.figures import drafted_by, method_of, name_of, time_of
from demo.common.methods import colour
from moa_core.decoding.trace import (
    Drafted,
    Event,
    Finished,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verify import first_difference
from moa_core.text import RecordedText, TokenText

INTERVAL = 1 / 10  # seconds between messages to the page: more of them slow decoding

Token = list[Any]
Line = dict[str, Any]


def paced(
    events: Iterable[Event], interval: float = INTERVAL, clock: Callable[[], float] = monotonic
) -> Iterator[list[Event]]:
    """Events in batches, at most one per interval, plus the last.

    The first event comes at once, as do changes of the link and what is written without it: the
    last such token may be the last event for long.
    """
    batch: list[Event] = []
    due = clock()
    try:
        for event in events:
            batch.append(event)
            if clock() >= due or isinstance(event, LinkDown | OfflineToken | LinkBack):
                yield batch
                batch, due = [], clock() + interval
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


class Healing:
    """Offline tokens that wait for verification."""

    def __init__(self) -> None:
        self.waiting: list[OfflineToken] = []
        self._newest = False  # whether nothing was verified since they were written

    def add(self, event: Event) -> dict[str, int]:
        """Process one more event. Returns what it did to waiting tokens, without zeros:

        confirmed  how many the target agrees with, from the first on
        changed    how many of the others the target's text replaces
        dropped    how many were not verified when the run ended
        """
        found = {}
        match event:
            case OfflineToken():
                # After a second loss the drafter may begin again, at the newest sure token.
                self.waiting = [one for one in self.waiting if one.position < event.position]
                self.waiting.append(event)
                self._newest = True
            case Verified():
                offline, emitted = [one.token for one in self.waiting], event.emitted
                same = first_difference(emitted, offline)
                if same is None:  # one of the two texts begins with the other
                    same = min(len(emitted), len(offline))
                kept = 0 if same < len(emitted) else len(offline) - same
                found = {"confirmed": same, "changed": len(offline) - same - kept}
                self.waiting = self.waiting[len(offline) - kept :]
                self._newest = False
            case Finished() if not self._newest:
                found, self.waiting = {"dropped": len(self.waiting)}, []
        return {name: count for name, count in found.items() if count}


class Feed:
    """Turns a run's events into lines. lane: which lane of the page they are for."""

    def __init__(self, text: TokenText | RecordedText, lane: str) -> None:
        self._text, self._lane = text, lane
        self._aside = text  # a fork, for text written offline
        self._healing = Healing()
        self._drafted: Drafted | None = None
        self._spent = 0.0

    def head(self, run: str, trace: Trace) -> Line:
        about = {key: str(trace.about.get(key, "")) for key in ("method", "prompt")}
        by = {"by": drafted_by(trace), "label": method_of(trace), "colour": colour(name_of(trace))}
        return {"lane": self._lane, "run": run, **by, **about}

    def lines(self, events: Iterable[Event]) -> list[Line]:
        found = []
        for event in events:
            self._spent += time_of(event)
            if line := self.line(event):
                if not isinstance(event, LinkDown | LinkBack | Finished):
                    line["s"] = round(self._spent, 5)
                found.append({"lane": self._lane, **line})
        return found

    def line(self, event: Event) -> Line | None:
        """The page's line for an event; None if it has none."""
        match event:
            case Prefilled():
                [piece] = self._text.push([event.token])
                token = self._token(event.token, piece, None, event.prob)
                return {"first": token, "at": len(event.prompt_ids)}
            case Drafted():
                self._drafted = event
                return None
            case Verified():
                assert self._drafted is not None, "a tree is drafted before it is verified"
                return self._cycle(self._drafted, event)
            case LinkDown():
                return {"down": event.seconds}
            case OfflineToken():
                self._spent += event.seconds
                self._healing.add(event)
                if len(self._healing.waiting) == 1:  # the first one, or the first one anew
                    self._aside = self._text.fork()
                [piece] = self._aside.push([event.token])
                token = self._token(event.token, piece, event.prob, None)
                return {"offline": token, "at": event.position}
            case LinkBack():
                return {"back": event.seconds, "tokens": event.tokens}
            case Finished():
                return {"end": event.reason, **self._healing.add(event)}

    def _cycle(self, drafted: Drafted, verified: Verified) -> Line:
        probs = [one.prob for one in self._healing.waiting]
        healed = self._healing.add(verified)
        line = self._verified(drafted, verified)
        if drafted.offline:  # the rejected drafts were written offline
            line["tree"] = None
            for token, prob in zip(line["accepted"], probs, strict=False):
                token[1] = round(prob, 4)
        return line | healed

    def _verified(self, drafted: Drafted, verified: Verified) -> Line:
        tree, path, emitted = drafted.tree, verified.path, verified.emitted
        pieces = self._text.push(emitted)
        accepted = [
            self._token(token, piece, tree.draft_prob(node), verified.draft_probs[node])
            for node, token, piece in zip(path, emitted, pieces, strict=False)
        ]
        bonus = None
        if len(emitted) == verified.gained:  # else cut before the bonus
            last = path[-1] if path else 0
            bonus = self._token(emitted[-1], pieces[-1], None, verified.choice_probs[last])
        return {
            "cycle": verified.cycle,
            "at": drafted.position,
            "accepted": accepted,
            "bonus": bonus,
            "ms": [
                round(1000 * spent, 2)
                for spent in (drafted.seconds, verified.seconds, verified.other_seconds)
            ],
            "tree": self._tree(tree, verified) if len(tree) > 1 else None,
        }

    def _tree(self, tree: DraftTree, verified: Verified) -> dict[str, Any]:
        last = verified.path[-1] if verified.path else 0
        return {
            "texts": [self._text.alone(token) for token in tree.tokens],
            "parents": tree.parents,
            "draft": [whole(tree.draft_prob(node)) for node in range(len(tree))],
            "target": [whole(prob) for prob in verified.draft_probs],
            "special": [at for at, token in enumerate(tree.tokens) if self._text.special(token)],
            "path": verified.path,
            "bonus": [self._text.alone(verified.choices[last]), whole(verified.choice_probs[last])],
        }

    def _token(self, token: int, piece: str, draft: float | None, target: float | None) -> Token:
        special = self._text.special(token)
        text = self._text.alone(token) if special else piece
        probs = [None if prob is None else round(prob, 4) for prob in (draft, target)]
        return [text, *probs, int(special)]


def feed_of(trace: Trace, lane: str) -> list[Line]:
    """All lines of a recorded run. UserError if it has no words."""
    feed = Feed(RecordedText(trace), lane)
    return [feed.head(token_hex(4), trace), *feed.lines(trace.events)]


def whole(probability: float) -> int:
    """Ten-thousandths; what is not 0 stays above it."""
    return max(round(10_000 * probability), 1) if probability > 0 else 0
