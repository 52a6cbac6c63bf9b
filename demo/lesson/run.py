"""The lesson's runs: a real cycle of each, drawn as a tree."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from demo.common.figures import many, name_of
from demo.common.methods import label
from demo.engine import Engine, PreparedRun, Request
from demo.inside.view import pack
from moa_core.decoding.trace import Drafted, LinkBack, LinkDown, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.text import RecordedText, record_words

MOST = 8  # cycles of a trial's run
TREE, CHAIN = TreeSettings(), TreeSettings(12, 1, 12)
EACH = "In each box: the drafter’s probability of this one token, given those before it"
JUDGED = "; in the bonus, the target’s"


@dataclass(frozen=True)
class Trial:
    """A run that a step offers.

    said    a trace's cycle in a sentence
    judged  whether the drawing shows the target's verdict
    """

    button: str
    tree: TreeSettings
    said: Callable[[Trace, int], str]
    judged: bool = True


def request(engine: Engine, trial: Trial, prompt: str, target: str) -> Request:
    """Greedy cycles with the trial's tree. UserError for a target without a MoA drafter."""
    if not engine.stops(target):
        raise UserError("No MoA drafter is installed for this target: choose another target above.")
    length = 1 + MOST * (trial.tree.depth + 1)  # the prefill's token, whole paths and their bonuses
    return Request(prompt, engine.default(target), length, trial.tree, target=target)


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
    tree with branches, then the most drafts. None that followed a cut."""

    def shows(place: tuple[Trace, int]) -> tuple[bool, bool, int]:
        drafted, verified = place[0].cycles[place[1]]
        branches = len(set(drafted.tree.parents)) < len(drafted.tree)
        return len(verified.path) > 1, branches, len(drafted.tree)

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


def drawn(trial: Trial, trace: Trace, at: int = 0, pressed: bool = False) -> str:
    """A trace's cycle as sentences and a tree: the JSON that lesson/tree.js draws. pressed: whether
    its own button was, so that it comes into sight."""
    packed = pack(trace)
    said = f"{label(name_of(trace))}: {trial.said(trace, at)} {EACH}{JUDGED * trial.judged}."
    cycles = packed["cycles"][at : at + 1]
    return json.dumps(
        {**packed, "cycles": cycles, "said": said, "judged": trial.judged, "pressed": pressed}
    )


def _times(drafted: Drafted, verified: Verified) -> str:
    spent = 1000 * drafted.seconds, 1000 * verified.seconds
    return f"{spent[0]:.1f} ms to draft, {spent[1]:.1f} ms to verify"


def _drafted(trace: Trace, at: int) -> str:
    drafted, _ = trace.cycles[at]
    nodes, levels = len(drafted.tree) - 1, max(drafted.tree.depths)
    return f"{many(nodes, 'guess', 'guesses')} in {many(levels, 'level')}."


def _verified(trace: Trace, at: int) -> str:
    drafted, verified = trace.cycles[at]
    return (
        f"{len(verified.path)} of {many(len(drafted.tree) - 1, 'guess', 'guesses')} accepted. With "
        f"the bonus, one target call gained {many(verified.gained, 'token')} "
        f"({_times(drafted, verified)})."
    )


def _alone(trace: Trace, at: int) -> str:
    drafted, verified = trace.cycles[at]
    text, (root, *chain) = RecordedText(trace), drafted.tree.tokens
    count = len(verified.path)
    agreed = {0: "None of them is", 1: "The first one is", len(chain): "All of them are"}
    return (
        f"after “{text.alone(root).strip()}” it wrote {many(len(chain), 'token')}: "
        f"“{''.join(map(text.alone, chain)).strip()}”. "
        f"{agreed.get(count, f'The first {count} are')} what the target would have written "
        f"({_times(drafted, verified)})."
    )


TRIALS = {
    "draft": Trial("Draft one tree", TREE, _drafted, judged=False),
    "verify": Trial("Draft and verify it", TREE, _verified),
    "alone": Trial("Draft twelve tokens alone", CHAIN, _alone),
}
