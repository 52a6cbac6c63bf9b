"""The same prompt through several methods, one after the other: who runs when, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

from transformers import PreTrainedTokenizerBase

from demo.engine import Engine, Request, Run
from demo.methods import label, ordered
from moa_core.bench.runs import in_turn
from moa_core.errors import UserError
from moa_core.trace import Trace
from moa_core.tree import TreeSettings
from moa_core.verify import Sampling

FEWEST, MOST, MOST_REPEATS = 2, 4, 5
WARM_UP = 16  # tokens that each method decodes first, not counted
INTERVAL = 0.25  # seconds between two words on progress: rare, since they take time from the runs
VANILLA = "vanilla"


@dataclass(frozen=True)
class Plan:
    """What a comparison is to do.

    methods  2 to 4 names, each once
    repeats  counted runs of each method
    tree     for all methods; None: each one's own measured default
    UserError for a number of methods or repeats that is not offered.
    """

    prompt: str
    methods: tuple[str, ...]
    repeats: int = 3
    max_new_tokens: int = 128
    sampling: Sampling = field(default_factory=Sampling)
    tree: TreeSettings | None = None
    target: str = ""

    def __post_init__(self) -> None:
        if len(set(self.methods)) < len(self.methods):
            raise UserError("A method is named twice: choose each one once.")
        if not FEWEST <= len(self.methods) <= MOST:
            chosen = {0: "none is", 1: "only 1 is"}.get(len(self.methods))
            raise UserError(
                f"Choose {FEWEST} to {MOST} methods to compare: "
                f"{chosen or f'{len(self.methods)} are'} chosen."
            )
        count = self.repeats
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_REPEATS:
            raise UserError(f"The number of repeats must be a whole number, 1 to {MOST_REPEATS}.")

    def request(self, method: str, length: int) -> Request:
        """One run of a method, to at most so many tokens."""
        return Request(self.prompt, method, length, self.tree, self.sampling, self.target)


@dataclass(frozen=True)
class Progress:
    """How far a comparison is.

    phase  warm-up (not counted), plain (plain decoding for its text, not counted), run
    run    number of this counted run, from 1, of `runs`; 0 before the first
    share  of the work done, 0 to 1
    """

    phase: str
    method: str
    share: float
    repeat: int = 0
    repeats: int = 0
    run: int = 0
    runs: int = 0

    @property
    def words(self) -> str:
        """Which method, which repeat, of how many."""
        if self.phase == "warm-up":
            return f"Warming up {label(self.method)}: a short run that is not counted."
        if self.phase == "plain":
            return "Plain decoding, not counted: the text that all others must write."
        return (
            f"Repeat {self.repeat} of {self.repeats}: {label(self.method)} "
            f"(run {self.run} of {self.runs})."
        )


@dataclass
class Comparison:
    """A plan and the runs that were finished.

    traces     the counted runs of each method, oldest first
    reference  token ids of a plain run, where the plan itself has none
    tokenizer  the target's, once it is there
    """

    plan: Plan
    traces: dict[str, list[Trace]] = field(init=False)
    reference: list[int] | None = None
    tokenizer: PreTrainedTokenizerBase | None = None

    def __post_init__(self) -> None:
        self.traces = {method: [] for method in self.plan.methods}

    @property
    def plain(self) -> list[int] | None:
        """Token ids that plain decoding wrote, if it was finished."""
        own = self.traces.get(VANILLA)
        return own[0].output_ids if own else self.reference

    @property
    def finished(self) -> int:
        """Counted runs that were finished."""
        return sum(len(traces) for traces in self.traces.values())

    @property
    def wanted(self) -> int:
        """Counted runs that the plan asks for."""
        return self.plan.repeats * len(self.plan.methods)


def usual(engine: Engine, target: str = "") -> list[str]:
    """The methods to begin with: MoA N=1 or another default, EAGLE-2 and vanilla, where there."""
    there = engine.methods(target)
    moa = "moa-n1" if "moa-n1" in there else engine.default(target)
    return ordered({moa, "eagle2", VANILLA} & set(there))


def compare(
    engine: Engine,
    comparison: Comparison,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Progress]:
    """Fill a comparison, run by run, saying how far it is. UserError before the first word.

    Methods take turns over the repeats, each time another one first, so that whatever else the
    machine does meets all of them. A run that was stopped is dropped.
    """
    plan = comparison.plan
    for method in plan.methods:
        if refusal := engine.refusal(method, plan.target):
            raise UserError(refusal)
    # Refuses a prompt or a length.
    first = engine.prepare(plan.request(plan.methods[0], plan.max_new_tokens))
    comparison.tokenizer = first.target.tokenizer
    steps = list(_steps(plan))
    total, done = sum(_length(plan, step) for step in steps), 0
    for step in steps:
        yield replace(step, share=done / total)
        if should_stop():
            return
        run = engine.prepare(plan.request(step.method, _length(plan, step)), should_stop)
        for tokens in _counted(run, clock):
            yield replace(step, share=(done + tokens) / total)
        if run.trace.reason == "stopped":
            return
        _keep(comparison, step, run.trace)
        done += _length(plan, step)


def _steps(plan: Plan) -> Iterator[Progress]:
    """Everything there is to run, in order."""
    runs = plan.repeats * len(plan.methods)
    for method in plan.methods:
        yield Progress("warm-up", method, 0)
    if VANILLA not in plan.methods:
        yield Progress("plain", VANILLA, 0)
    turns = in_turn(plan.methods, plan.repeats, [plan.prompt])
    for run, (repeat, _, method) in enumerate(turns, 1):
        yield Progress("run", method, 0, repeat + 1, plan.repeats, run, runs)


def _length(plan: Plan, step: Progress) -> int:
    return min(WARM_UP, plan.max_new_tokens) if step.phase == "warm-up" else plan.max_new_tokens


def _counted(run: Run, clock: Callable[[], float]) -> Iterator[int]:
    """Decode to the end; the number of tokens so far, now and then."""
    due = clock() + INTERVAL
    with closing(run.events):
        for _ in run.events:
            if clock() >= due:
                yield len(run.trace.output_ids)
                due = clock() + INTERVAL


def _keep(comparison: Comparison, step: Progress, trace: Trace) -> None:
    if step.phase == "plain":
        comparison.reference = trace.output_ids
    elif step.phase == "run":
        comparison.traces[step.method].append(trace)
