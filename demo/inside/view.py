"""The view of cycles: a whole trace as one JSON object, drawn by one HTML component.

The page gets the trace once and moves between cycles without the server. To keep long runs small,
texts are indices into `texts`, and probabilities are whole ten-thousandths.

    {"run": id, "method": words, "prompt": in the chat template, "texts": [text of a token],
     "special": [place], "output": [piece of text of each new token], "cycles": [cycle]}

A cycle, one entry a node in each of its columns, the root first:

    {"at": the root's position, "before": new tokens up to and with the root,
     "tokens": [place], "parents": [node], "draft": [P(node | parent)], "reach": [P(node | root)],
     "target": [P(node | parent)], "choices": [place], "sure": [P(choice)],
     "path": [accepted node], "bonus": place, "emitted": tokens gained and kept,
     "ms": [draft, verify]}

"about" says which run it is. "rival" is another method's run of the same prompt in the
same form, or null.

The component gets the object as its prop `trace`; its value is the index of the visible cycle,
from 0.
"""

import json
import math
from collections.abc import Callable
from secrets import token_hex
from typing import Any

from demo.common.figures import drafted_by, name_of
from demo.common.methods import label
from demo.common.tokens.view import whole
from moa_core.decoding.trace import Drafted, Prefilled, Trace, Verified, fits
from moa_core.errors import UserError
from moa_core.text import RecordedText


def packed(trace: Trace, rival: Trace | None = None, whose: str = "") -> str:
    """The JSON of a trace, and of another one of the same text for below it. UserError if one has
    no words or malformed trees. whose: what kind of run it is, in words."""
    try:
        about = f"{whose}: {drafted_by(trace)}; target {trace.about.get('target', 'unknown')}"
        both = pack(trace) | {"about": about, "rival": pack(rival) if rival else None}
        return json.dumps(both, separators=(",", ":"), allow_nan=False)
    except UserError:
        raise
    except (TypeError, ValueError, OverflowError) as error:  # a file may contain anything
        raise UserError(f"This trace is damaged ({error}).") from None


def pack(trace: Trace) -> dict[str, Any]:
    """A trace's data for drawing its cycles."""
    text = RecordedText(trace)
    places: dict[int, int] = {}  # of tokens in `texts`
    prompt_length = sum(len(event.prompt_ids) for event in trace.of(Prefilled))

    def place(token: int) -> int:
        return places.setdefault(token, len(places))

    cycles = [_cycle(place, *cycle, prompt_length) for cycle in cycles_of(trace)]
    return {
        "run": token_hex(4),
        "method": label(name_of(trace)),
        "prompt": str(trace.about["words"].get("prompt", "")),
        "texts": [text.alone(token) for token in places],
        "special": [at for at, token in enumerate(places) if text.special(token)],
        "output": text.push(trace.output_ids),
        "cycles": cycles,
    }


def cycles_of(trace: Trace) -> list[tuple[Drafted, Verified]]:
    """The complete cycles, without an unverified draft. UserError for a malformed one."""
    for drafted, found in trace.cycles:
        if not fits(drafted, found):
            raise UserError(f"This trace is damaged: its cycle {drafted.cycle + 1} does not fit.")
    return trace.cycles


def _cycle(
    place: Callable[[int], int], drafted: Drafted, verified: Verified, prompt: int
) -> dict[str, Any]:
    tree = drafted.tree
    return {
        "at": drafted.position,
        "before": drafted.position - prompt + 1,
        "tokens": [place(token) for token in tree.tokens],
        "parents": tree.parents,
        "draft": [whole(tree.draft_prob(node)) for node in range(len(tree))],
        "reach": [whole(math.exp(value)) for value in tree.log_probs],
        "target": [whole(value) for value in verified.draft_probs],
        "choices": [place(token) for token in verified.choices],
        "sure": [whole(value) for value in verified.choice_probs],
        "path": verified.path,
        "bonus": place(verified.bonus),
        "emitted": len(verified.emitted),
        "ms": [round(1000 * one.seconds, 2) for one in (drafted, verified)],
    }
