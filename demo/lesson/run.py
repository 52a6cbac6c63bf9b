"""The lesson's runs: a real cycle of each, drawn as a tree."""

import json
from collections.abc import Iterator
from contextlib import closing

from demo.common.figures import many, name_of
from demo.common.methods import label
from demo.engine import Engine, PreparedRun, Request
from demo.inside.view import pack
from moa_core.decoding.trace import Drafted, LinkBack, LinkDown, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.text import record_words

LONG = 48  # characters of the text before a tree
MOST = 8  # cycles of a trial's run
TREE = TreeSettings()
EACH = "%: how sure the drafter was"
JUDGED = "; on orange, how sure the target was"
TRIALS = {"draft": "Draft one tree", "verify": "Draft and verify it"}  # their buttons


def request(engine: Engine, prompt: str, target: str) -> Request:
    """Greedy cycles. UserError for a target without a MoA drafter."""
    if not engine.stops(target):
        raise UserError("No MoA drafter is installed for this target: choose another target above.")
    length = 1 + MOST * (TREE.depth + 1)  # the prefill's token, whole paths and their bonuses
    return Request(prompt, engine.default(target), length, TREE, target=target)


def first_cycles(run: PreparedRun) -> Trace:
    """Run until a cycle has two accepted drafts, or for MOST cycles. UserError if there is none."""
    with closing(run.events) as events:
        for event in events:
            if isinstance(event, Verified) and (len(event.path) > 1 or event.cycle + 1 == MOST):
                break
    if run.trace.reason == "stopped":
        raise UserError("Stopped before there was a cycle to show.")
    if not run.trace.cycles:
        raise UserError(
            "The target ended its answer after one token, so nothing was drafted: write another "
            "prompt."
        )
    record_words(run.trace, run.target.tokenizer)
    return run.trace


def telling(*runs: Trace) -> tuple[Trace, int]:
    """The cycle of these runs that shows most, and its run: at least two accepted drafts, then a
    tree with branches, then the most drafts with letters. None that followed a cut."""

    def shows(place: tuple[Trace, int]) -> tuple[bool, bool, int]:
        drafted, verified = place[0].cycles[place[1]]
        texts = place[0].about["words"]["alone"]
        branches = len(set(drafted.tree.parents)) < len(drafted.tree)
        guessed = [texts.get(str(token), "") for token in drafted.tree.tokens]
        words = sum(any(map(str.isalpha, text)) for text in guessed)
        return len(verified.path) > 1, branches, words

    return max(((run, at) for run in runs for at in _uncut(run)), key=shows)


def _uncut(trace: Trace) -> Iterator[int]:
    """The cycles that the target answered at once, with a tree that was drafted for it."""
    cut, at = False, 0
    for event in trace.events:
        if isinstance(event, Drafted):
            cut = event.offline
        elif isinstance(event, LinkDown | LinkBack):
            cut = True
        elif isinstance(event, Verified):
            if not cut:
                yield at
            at += 1


def drawn(trial: str, trace: Trace, at: int = 0, pressed: bool = False) -> str:
    """A trace's cycle as sentences and a tree, with the target's verdict for "verify": the JSON
    that lesson/tree.js draws. pressed: whether its own button was, so that it comes into sight."""
    drafted, verified = trace.cycles[at]
    judged = trial == "verify"
    guesses = many(len(drafted.tree) - 1, "guess", "guesses")
    found = f"{guesses} in {many(max(drafted.tree.depths), 'level')}."
    if judged:
        gained = f"With the bonus, one target call gained {many(verified.gained, 'token')}."
        found = f"{len(verified.path)} of {guesses} accepted. {gained}"
    packed = pack(trace)
    cycles = packed["cycles"][at : at + 1]
    before = "".join(packed["output"][: cycles[0]["before"]]).rsplit("\n", 1)[-1].strip()
    after = f", after “{before if len(before) < LONG else '… ' + before[-LONG:].partition(' ')[2]}”"
    said = f"{label(name_of(trace))}{after * bool(before)}: {found} {EACH}{JUDGED * judged}."
    shown = {"cycles": cycles, "said": said, "judged": judged, "pressed": pressed}
    return json.dumps(packed | shown)
