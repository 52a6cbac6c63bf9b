"""The live token view: events become lines of JSON, and one HTML component paints them.

The value of the component only ever grows, so gradio sends what is new and nothing is lost; the
page reads the lines it has not yet seen. A token is [text, draft probability, target probability,
special]. Lines, in order:

    {"run": id, "pace": pace, "by": words}               a new run, and what drafts: the page clears
    {"first": token, "at": position}                     after the prefill
    {"cycle": i, "at": root's position, "drafted": n,    after each verification
     "accepted": [token], "bonus": token or null,
     "rejected": [token], "others": [[token, after]], "more": n}
    {"down": seconds}                                    the link is lost, after so much silence
    {"offline": token, "at": position}                   written alone; of what stands there already
                                                         nothing stays
    {"back": seconds, "tokens": n}                       the link is there again
    {"stats": {...}}                                     after each of these: the figures so far
    {"end": reason, "words": sentence}
    {"measuring": words}                                 how far a comparison is; "": it is over
    {"plain": {...}}                                     what plain decoding took, and wrote

A cycle takes the place of offline tokens. "confirmed": so many of its tokens had been written alone
as well; "changed": after them, so many had been that now go; "kept": so many of its tokens stay as
they were written. An "end" may say how many offline tokens are "dropped".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any

import gradio as gr

from demo.common.figures import Figures
from demo.common.offline import Healing
from demo.common.theme import script
from moa_core.decoding.trace import (
    Drafted,
    Event,
    Finished,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Verified,
)
from moa_core.decoding.tree import DraftTree
from moa_core.text import RecordedText, TokenText

INTERVAL = 1 / 8  # seconds between two updates of the page: more often costs the decoding time
MOST_LISTED = 12  # rejected nodes named in the "+7" mark's tip
VIEW = ("frame", "tokens", "tip", "offline", "{figures}", "player")
PACES = ("full", "slow", "step")  # as decoded, a cycle at a time, or one for each press
ENDINGS = {
    "eos": "the target ended its answer",
    "length": "the token limit is reached",
    "context": "the target's context is full",
    "stopped": "you pressed Stop",
    "offline": "the link stayed lost",
    "error": "an error",
}

Token = list[Any]


def trace_view(figures: str = "figures", **kwargs: Any) -> gr.HTML:
    """The component. A function, since gradio writes a .pyi file beside every subclass.

    figures  name of the script in common/tokens with its tiles
    """
    parts = [
        "common/static/dom.js",
        *(f"common/tokens/{name.format(figures=figures)}.js" for name in VIEW),
    ]
    return gr.HTML(
        "",
        html_template='<div class="token-view"></div>',
        js_on_load=script(*parts),
        apply_default_css=False,
        **kwargs,
    )


def paced(
    events: Iterable[Event],
    interval: float = INTERVAL,
    clock: Callable[[], float] = monotonic,
    urgent: Callable[[Event], bool] = lambda event: False,
) -> Iterator[list[Event]]:
    """Events in batches, at most one per interval; the first at once, and the last always.

    urgent  which events come at once, too
    """
    batch: list[Event] = []
    due = clock()
    try:
        for event in events:
            batch.append(event)
            if clock() >= due or urgent(event):
                yield batch
                batch, due = [], clock() + interval
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


class Feed:
    """Turns one run's events into the view's value, `ndjson`, which only grows."""

    def __init__(
        self, run: str, text: TokenText | RecordedText, pace: str = PACES[0], by: str = ""
    ) -> None:
        self.ndjson = ""
        self._figures = Figures()
        self._text = text
        self._aside = text  # a fork of it, for what is written alone
        self._healing = Healing()
        self._drafted: Drafted | None = None
        self._measuring = ""
        self._write({"run": run, "pace": pace, "by": by})

    def add(self, events: Iterable[Event]) -> str:
        """Append the lines of some events, each with the figures so far; return the whole value."""
        for event in events:
            self._figures.add(event)
            line = self._line(event)
            if line:
                self._write(line)
                self._write({"stats": rounded(self._figures.as_dict())})
        return self.ndjson

    def measuring(self, words: str) -> str:
        """Append how far a comparison is, where that is news; return the whole value."""
        if words != self._measuring:
            self._measuring = words
            self._write({"measuring": words})
        return self.ndjson

    def plain(self, measured: dict[str, Any]) -> str:
        """Append how plain decoding compares; return the whole value."""
        self._measuring = ""
        self._write({"plain": measured})
        return self.ndjson

    def broken(self) -> str:
        """Append that an error ended the run; return the whole value."""
        self._write({"end": "error", "words": ENDINGS["error"]})
        return self.ndjson

    def _write(self, line: dict[str, Any]) -> None:
        self.ndjson += json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"

    def _line(self, event: Event) -> dict[str, Any] | None:
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
                return self._offline(event)
            case LinkBack():
                return {"back": event.seconds, "tokens": event.tokens}
            case Finished():
                words = ENDINGS.get(event.reason, event.reason)
                dropped = self._healing.add(event).dropped
                end = {"end": event.reason, "words": words}
                return {**end, "dropped": dropped} if dropped else end

    def _offline(self, event: OfflineToken) -> dict[str, Any]:
        self._healing.add(event)
        if len(self._healing.waiting) == 1:  # the first one, or the first one anew
            self._aside = self._text.fork()
        [piece] = self._aside.push([event.token])
        return {"offline": self._token(event.token, piece, event.prob, None), "at": event.position}

    def _cycle(self, drafted: Drafted, verified: Verified) -> dict[str, Any]:
        probs = [one.prob for one in self._healing.waiting]
        healed = self._healing.add(verified)
        line = self._verified(drafted, verified)
        if drafted.offline:  # what was drafted, and rejected, was written alone
            line |= {"rejected": [], "others": [], "more": 0}
            for token, prob in zip(line["accepted"], probs, strict=False):
                token[1] = round(prob, 4)
        said = {"confirmed": healed.confirmed, "changed": len(healed.changed), "kept": healed.kept}
        return line | {name: count for name, count in said.items() if count}

    def _verified(self, drafted: Drafted, verified: Verified) -> dict[str, Any]:
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
        inline = likeliest(tree, path[-1] if path else 0) if bonus else ()
        kept = {0, *path, *inline}
        others = sorted(
            (node for node in range(len(tree)) if node not in kept),
            key=lambda node: -tree.log_probs[node],
        )
        return {
            "cycle": verified.cycle,
            "at": drafted.position,
            "drafted": len(tree) - 1,
            "accepted": accepted,
            "bonus": bonus,
            "rejected": [self._rejected(drafted, verified, node) for node in inline],
            "others": [
                [self._rejected(drafted, verified, node), self._after(tree, node)]
                for node in others[:MOST_LISTED]
            ],
            "more": len(others),
        }

    def _rejected(self, drafted: Drafted, verified: Verified, node: int) -> Token:
        token, tree = drafted.tree.tokens[node], drafted.tree
        piece = self._text.alone(token)
        return self._token(token, piece, tree.draft_prob(node), verified.draft_probs[node])

    def _after(self, tree: DraftTree, node: int) -> str:
        return self._text.alone(tree.tokens[tree.parents[node]])

    def _token(self, token: int, piece: str, draft: float | None, target: float | None) -> Token:
        special = self._text.special(token)
        text = self._text.alone(token) if special else piece
        probs = [None if prob is None else round(prob, 4) for prob in (draft, target)]
        return [text, *probs, int(special)]


def likeliest(tree: DraftTree, node: int) -> Sequence[int]:
    """The drafter's most probable continuation below a node."""
    chain: list[int] = []
    while tree.children[node]:
        node = max(tree.children[node].values(), key=lambda child: tree.log_probs[child])
        chain.append(node)
    return chain


def rounded(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures to the digits that a page shows: they are sent with every cycle."""
    short: dict[str, Any] = {}
    for name, value in figures.items():
        if isinstance(value, dict):
            value = rounded(value)
        short[name] = round(value, 4) if isinstance(value, float) else value
    return short
