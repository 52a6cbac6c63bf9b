"""A comparison as a race: what the page needs to replay each method's middle run.

The value is {"id": changes with each race, "repeats": counted runs of each, "lanes": [lane]};
a lane is
    label, colour   of the method
    prefill         seconds until the first token
    first           token
    cycles          [draft seconds, verify seconds, other seconds, [token]]
    tau, rate       as the table writes them
    differs         place of the first token that is not plain decoding's, from 1, or null
and a token [text, kind, special]; kinds are first, accepted, bonus and rejected: the most probable
draft in the place of a bonus, which is no part of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.common.methods import colour
from demo.common.theme import script
from demo.compare.rows import Row, digits, middle
from demo.compare.run import Comparison
from moa_core.decoding.trace import Drafted, Prefilled, Trace, Verified
from moa_core.decoding.verify import first_difference
from moa_core.text import TokenText


def race_view(**kwargs: Any) -> gr.HTML:
    """The component."""
    return gr.HTML(
        None,
        html_template='<section class="race" aria-label="Race"></section>',
        js_on_load=script("common/static/dom.js", "compare/race.js"),
        apply_default_css=False,
        **kwargs,
    )


def race(comparison: Comparison, rows: Sequence[Row]) -> dict[str, Any]:
    """The view's value: a lane per row."""
    lanes = [_lane(comparison, row) for row in rows]
    return {"id": token_hex(4), "repeats": max(row.runs for row in rows), "lanes": lanes}


def _lane(comparison: Comparison, row: Row) -> dict[str, Any]:
    trace = middle(comparison.traces[row.method])
    place = first_difference(trace.output_ids, comparison.plain or ())
    return {
        "label": row.label,
        "colour": colour(row.method),
        "tau": digits(row.tau and row.tau.middle, "tau"),
        "rate": digits(row.rate and row.rate.middle, "rate"),
        "differs": None if place is None else place + 1,
        **_timed(trace, TokenText(comparison.tokenizer)),
    }


def _timed(trace: Trace, text: TokenText) -> dict[str, Any]:
    made: dict[str, Any] = {"prefill": 0.0, "first": None, "cycles": []}
    drafted: Drafted | None = None
    for event in trace.events:
        match event:
            case Prefilled():
                made["prefill"] = event.seconds
                [made["first"]] = _tokens(text, [event.token], ["first"])
            case Drafted():
                drafted = event
            case Verified() if drafted:
                kinds = ["accepted"] * len(event.path) + ["bonus"]  # both cut as emitted is
                tokens = _tokens(text, event.emitted, kinds)
                if len(event.emitted) > len(event.path):
                    tokens[-1:-1] = _rejected(text, drafted, event)
                times = drafted.seconds, event.seconds, event.other_seconds
                made["cycles"].append([*times, tokens])
    return made


def _rejected(text: TokenText, drafted: Drafted, verified: Verified) -> list[list[Any]]:
    """The most probable draft where the target chose the bonus instead; none at a leaf."""
    last = verified.path[-1] if verified.path else 0
    tree = drafted.tree
    best = max(tree.children[last].values(), key=tree.log_probs.__getitem__, default=None)
    if best is None:
        return []
    token = tree.tokens[best]
    return [[text.alone(token), "rejected", int(text.special(token))]]


def _tokens(text: TokenText, ids: Sequence[int], kinds: Sequence[str]) -> list[list[Any]]:
    """[text, kind, special] of each; special tokens by name."""
    pieces = zip(ids, text.push(ids), kinds, strict=False)
    return [
        [text.alone(token) if special else piece, kind, int(special)]
        for token, piece, kind in pieces
        for special in (text.special(token),)
    ]
