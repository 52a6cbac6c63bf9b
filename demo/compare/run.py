"""The same prompt through several methods, one after the other: who runs when, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from transformers import PreTrainedTokenizerBase

from demo.common.methods import RIVAL, VANILLA, ordered
from demo.common.turns import Counted, Progress, check_repeats, take, tokens_of, turns
from demo.engine import Engine, Request, Run
from moa_core.decoding.exactness import Exactness, compare_with_plain, first_difference
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError

FEWEST, MOST = 2, 4


@dataclass(frozen=True)
class Plan:
    """What a comparison is to do.

    methods  2 to 4 names, each once
    repeats  counted runs of each method
    tree     for all methods, or sized automatically; None: each one's own measured one
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
        check_repeats(self.repeats)

    @property
    def steps(self) -> list[Progress]:
        """Its runs, in order."""
        return turns(self.methods, self.repeats, plain=VANILLA not in self.methods)

    @property
    def tokens(self) -> int:
        """How many tokens it decodes at most."""
        return tokens_of(self.steps, self.max_new_tokens)

    def request(self, method: str, length: int) -> Request:
        """One run of a method, to at most so many tokens."""
        return Request(self.prompt, method, length, self.tree, self.sampling, self.target)


@dataclass
class Comparison(Counted):
    """A plan and the runs that were finished.

    reference  token ids of a plain run, where the plan itself has none
    tokenizer  the target's, once it is there
    parted     see `partings`; there once everything has run
    """

    plan: Plan
    traces: dict[str, list[Trace]] = field(init=False)
    reference: list[int] | None = None
    tokenizer: PreTrainedTokenizerBase | None = None
    parted: dict[str, Exactness] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.traces = {method: [] for method in self.plan.methods}

    @property
    def plain(self) -> list[int] | None:
        """Token ids that plain decoding wrote, if it was finished."""
        own = self.traces.get(VANILLA)
        return own[0].output_ids if own else self.reference

    def keep(self, step: Progress, trace: Trace) -> None:
        """A finished run: counted, or the plain one for its text."""
        if step.phase == "plain":
            self.reference = trace.output_ids
        else:
            self.traces[step.method].append(trace)


def usual(engine: Engine, target: str = "") -> list[str]:
    """The methods to begin with: MoA N=1 or another default, EAGLE-2 and vanilla, where there."""
    there = engine.methods(target)
    moa = "moa-n1" if "moa-n1" in there else engine.default(target)
    return ordered({moa, RIVAL, VANILLA} & set(there))


def compare(
    engine: Engine,
    comparison: Comparison,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Progress]:
    """Fill a comparison, run by run, saying how far it is. UserError before the first word."""
    plan = comparison.plan
    for method in plan.methods:
        if refusal := engine.refusal(method, plan.target):
            raise UserError(refusal)
    # Refuses a prompt or a length.
    first = engine.prepare(plan.request(plan.methods[0], plan.max_new_tokens))
    comparison.tokenizer = first.target.tokenizer

    def prepare(method: str, length: int) -> Run:
        return engine.prepare(plan.request(method, length), should_stop)

    yield from take(plan.steps, plan.max_new_tokens, prepare, comparison.keep, should_stop, clock)
    comparison.parted = partings(comparison, first)


def partings(comparison: Comparison, run: Run) -> dict[str, Exactness]:
    """Where greedy texts first leave plain decoding's, and the logit gap there, by method.

    Of a method's repeats the one that leaves it first. Nothing at a temperature, where a draw
    decides and not the greater logit.

    run  one of the same prompt, for its target
    """
    plain = comparison.plain
    if plain is None or not comparison.plan.sampling.greedy:
        return {}
    found = {}
    for method, traces in comparison.traces.items():
        texts = {first_difference(trace.output_ids, plain): trace.output_ids for trace in traces}
        places = [place for place in texts if place is not None]
        if places:
            text = texts[min(places)]
            found[method] = compare_with_plain(run.target, run.prompt_ids, text, plain)
    return found
