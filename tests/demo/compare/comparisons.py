"""Comparisons that nobody ran, with numbers that are easy to check by hand."""

from dataclasses import asdict

from demo.common.figures import Spread
from demo.compare.rows import Row
from demo.compare.run import Comparison
from demo.engine import Request
from moa_core.decoding.trace import Drafted, Finished, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings

TREE = TreeSettings(3, 2, 4)


def trace_of(gained, pace=0.1, drafted=4, ids=None):
    """A run in which each cycle takes `pace` seconds: a fifth drafts, a tenth is other.

    gained  tokens of each cycle
    ids     the new tokens, one more than those gained; counted up from 1 if None
    """
    ids = list(ids or range(1, sum(gained) + 2))
    events, place = [Prefilled((1, 2), ids[0], 0.5, 0.05)], 1
    for cycle, count in enumerate(gained):
        tokens = (ids[place - 1], *range(100, 100 + drafted))
        columns = ([-1, *[0] * drafted], [0, *[1] * drafted], [0.0, *[-1.0] * drafted])
        tree = DraftTree(tokens, *map(tuple, columns))
        path, emitted = tuple(range(1, count)), tuple(ids[place : place + count])
        choices, probs = (emitted[-1],) * len(tree), (0.5,) * len(tree)
        spent = 0.7 * pace, 0.1 * pace
        events.append(Drafted(cycle, place, tree, 0.2 * pace))
        events.append(Verified(cycle, path, emitted[-1], choices, probs, probs, emitted, *spent))
        place += count
    spent = pace * len(gained)
    seconds = {"prefill": 0.05, "draft": 0.2 * spent, "verify": 0.7 * spent, "other": 0.1 * spent}
    machine = {"device": "cpu", "dtype": "float32", "threads": 1, "torch": "2"}
    about = {"target": "fake", "settings": {"tree": asdict(TREE)}, "machine": machine}
    return Trace(about, [*events, Finished("length", seconds)])


def comparison_of(reference=None, **traces):
    """A finished comparison: traces by method (moa_n1 for moa-n1)."""
    named = {name.replace("_", "-"): found for name, found in traces.items()}
    repeats = max(len(found) for found in named.values())
    for name, found in named.items():
        for trace in found:
            trace.about["method"] = name
    asked, methods = Request("Hi"), tuple(named)
    return Comparison(
        asked=asked, methods=methods, traces=named, repeats=repeats, reference=reference
    )


def usual_comparison():
    """MoA gains 3 a cycle, EAGLE-2 2, vanilla 1; the middle of each is the second slowest run."""
    return comparison_of(
        moa_n1=[trace_of([3, 3], pace) for pace in (0.10, 0.12, 0.11)],
        eagle2=[trace_of([2, 2, 2], pace) for pace in (0.09, 0.10, 0.11)],
        vanilla=[trace_of([1] * 6, pace, 0) for pace in (0.06, 0.05, 0.04)],
    )


def row_of(method, tau=(2.0,) * 3, rate=(100.0,) * 3):
    """A row of three runs: tau and rate as (middle, low, high), None for unmeasured."""
    return Row(
        method, 3, trace_of([2] * 30), tau=tau and Spread(*tau), rate=rate and Spread(*rate),
        decoding=rate and Spread(*rate), same=True, differs=None,
        tree=None if method == "vanilla" else TREE,
    )  # fmt: skip
