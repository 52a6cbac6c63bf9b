"""The live token view: events become lines of JSON, which one HTML component draws.

The component's value only grows, so gradio sends only what is new; the page reads the lines that
it has not seen yet. A token is [text, draft probability, target probability,
special]. Lines, in order:

    {"run": id, "by": words, "from": n, "method": name,  a new run and its drafter: the page clears
     "device": {...}}
    {"first": token, "at": position}                     after the prefill
    {"cycle": i, "at": root's position,                  after each verification
     "accepted": [token], "bonus": token or null,
     "branch": [node], "after": n, "tree": {...}}        the best rejected branch, behind n of
                                                         the accepted; no tree without drafts
    {"down": seconds}                                    the link is lost, after this much silence
    {"offline": token, "at": position}                   written offline; replaces what is there
    {"back": seconds, "tokens": n}                       the link is back
    {"end": reason, "summary": words}
    {"plain": {...}}                                     the comparison with plain decoding

A tree has a column per property of its nodes, the root first: "texts", "parents",
"draft" and "target", their odds after the node's parent in ten-thousandths; "special", some nodes;
"path", the accepted ones; "bonus", the target's own token, and its odds.

A run with a "from" repeats an earlier run up to that many tokens: the page shows those at once.
"method" is there if the visitor's browser could draft it. With a "device" the page's own worker is
asked to decode it, and adds the lines itself.
A cycle replaces offline tokens. "confirmed" counts its tokens that had been written alone as well,
"changed" the offline tokens after them that now go, "kept" its tokens that stay unverified. An
"end" may say how many offline tokens are "dropped".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any

import gradio as gr

from demo.common.elements import component
from demo.common.offline import Healing
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

SCRIPTS = (
    "common/static/dom.js",
    *(f"common/tokens/{name}.js" for name in ("tokens", "frame", "tip", "offline")),
)
INTERVAL = 1 / 8  # seconds between updates of the page: more updates slow decoding
ENDINGS = {
    "eos": "ended by the target",
    "length": "stopped at the token limit",
    "context": "stopped: the target’s context is full",
    "stopped": "stopped by you",
    "offline": "ended because the link stayed lost",
    "error": "ended by an error",
}

Token = list[Any]


def trace_view(
    *figures: str, template: str = '<div class="token-view tokens"></div>', **kwargs: Any
) -> gr.HTML:
    """The component. A function, because gradio writes a .pyi file beside every subclass.

    figures  scripts of `demo/` that show more of the run beside its text
    """
    return component(template, *SCRIPTS, *figures, "common/tokens/player.js", **kwargs)


def paced(
    events: Iterable[Event],
    interval: float = INTERVAL,
    clock: Callable[[], float] = monotonic,
) -> Iterator[list[Event]]:
    """Events in batches, at most one per interval, plus the last.

    The first event and changes of the link come at once.
    """
    batch: list[Event] = []
    due = clock()
    try:
        for event in events:
            batch.append(event)
            if clock() >= due or isinstance(event, LinkDown | LinkBack):
                yield batch
                batch, due = [], clock() + interval
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


class Feed:
    """Turns a run's events into the view's value, `ndjson`, which only grows."""

    def __init__(
        self, run: str, text: TokenText | RecordedText, by: str = "", start: int = 0, **more: Any
    ) -> None:
        self.ndjson = ""
        self._text = text
        self._aside = text  # a fork, for text written offline
        self._healing = Healing()
        self._drafted: Drafted | None = None
        self._write({"run": run, "by": by, "from": start, **more})

    def add(self, events: Iterable[Event]) -> str:
        """Append the lines of some events; return the whole value."""
        for event in events:
            if line := self.line(event):
                self._write(line)
        return self.ndjson

    def plain(self, measured: dict[str, Any]) -> str:
        """Append the comparison with plain decoding; return the whole value."""
        return self._write({"plain": measured})

    def broken(self) -> str:
        """Append that an error ended the run; return the whole value."""
        return self._write({"end": "error", "summary": ENDINGS["error"]})

    def _write(self, line: dict[str, Any]) -> str:
        self.ndjson += json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
        return self.ndjson

    def line(self, event: Event) -> dict[str, Any] | None:
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
                self._healing.add(event)
                if len(self._healing.waiting) == 1:  # the first one, or the first one anew
                    self._aside = self._text.fork()
                [piece] = self._aside.push([event.token])
                token = self._token(event.token, piece, event.prob, None)
                return {"offline": token, "at": event.position}
            case LinkBack():
                return {"back": event.seconds, "tokens": event.tokens}
            case Finished():
                words = ENDINGS.get(event.reason, event.reason)
                dropped = self._healing.add(event).dropped
                end = {"end": event.reason, "summary": words}
                return {**end, "dropped": dropped} if dropped else end

    def _cycle(self, drafted: Drafted, verified: Verified) -> dict[str, Any]:
        probs = [one.prob for one in self._healing.waiting]
        healed = self._healing.add(verified)
        line = self._verified(drafted, verified)
        if drafted.offline:  # the rejected drafts were written offline
            line |= {"branch": [], "tree": None}
            for token, prob in zip(line["accepted"], probs, strict=False):
                token[1] = round(prob, 4)
        said = {"confirmed": healed.confirmed, "changed": healed.changed, "kept": healed.kept}
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
        branch, after = struck(tree, path) if bonus else ([], 0)
        return {
            "cycle": verified.cycle,
            "at": drafted.position,
            "accepted": accepted,
            "bonus": bonus,
            "branch": branch,
            "after": after,
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


def struck(tree: DraftTree, path: Sequence[int]) -> tuple[list[int], int]:
    """The most probable rejected branch, and the number of accepted nodes before it. A branch below
    the last accepted node is preferred to one beside the path."""
    kept = [0, *path]
    if chain := likeliest(tree, kept[-1]):
        return chain, len(path)
    beside = [node for at in kept for node in tree.children[at].values() if node not in kept]
    if not beside:
        return [], 0
    best = max(beside, key=lambda node: tree.log_probs[node])
    return [best, *likeliest(tree, best)], kept.index(tree.parents[best])


def likeliest(tree: DraftTree, node: int) -> list[int]:
    """The drafter's most probable continuation below a node."""
    chain: list[int] = []
    while tree.children[node]:
        node = max(tree.children[node].values(), key=lambda child: tree.log_probs[child])
        chain.append(node)
    return chain


def whole(probability: float) -> int:
    """Ten-thousandths; what is not 0 stays above it."""
    return max(round(10_000 * probability), 1) if probability > 0 else 0
