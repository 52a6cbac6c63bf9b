"""One prompt through several methods, in turns: the plan and its results."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from demo.common.charts import middle
from demo.common.measure import Measured, Progress, measure
from demo.common.methods import RIVAL, VANILLA, ordered
from demo.engine import Engine, Request
from demo.worker import Stop
from demo.zero import borrow
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Exactness, Sampling, compare_with_plain, first_difference
from moa_core.errors import UserError
from moa_core.text import record_words

FEWEST, MOST = 2, 5


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison.

    methods  2 to 5 names, each once; UserError for fewer or more
    repeats  counted runs of each method
    tree     for all methods
    """

    prompt: str
    methods: tuple[str, ...]
    repeats: int = 3
    max_new_tokens: int = 128
    sampling: Sampling = field(default_factory=Sampling)
    tree: TreeSettings = AUTO
    target: str = ""

    def __post_init__(self) -> None:
        if not FEWEST <= len(self.methods) <= MOST:
            chosen = {0: "none is", 1: "only 1 is"}.get(len(self.methods))
            raise UserError(
                f"Choose {FEWEST} to {MOST} methods to compare: "
                f"{chosen or f'{len(self.methods)} are'} chosen."
            )

    def request(self, method: str) -> Request:
        return Request(
            self.prompt, method, self.max_new_tokens, self.tree, self.sampling, self.target
        )


@dataclass
class Comparison(Measured):
    """A plan and its finished runs.

    parted  by method: where its greedy text first differs from plain decoding's
    """

    plan: Plan = field(kw_only=True)
    parted: dict[str, Exactness] = field(default_factory=dict)


def usual(engine: Engine, target: str = "") -> list[str]:
    """The default methods: the first screen's, EAGLE-2 and vanilla."""
    return ordered({engine.default(target), RIVAL, VANILLA} & set(engine.methods(target)))


def compare(engine: Engine, comparison: Comparison, should_stop: Stop) -> Iterator[Progress]:
    """Fill a comparison run by run, yielding progress. UserError before the first yield."""
    plan = comparison.plan
    requests = {method: plan.request(method) for method in plan.methods}
    plain = VANILLA not in plan.methods
    yield from measure(engine, requests, plan.repeats, comparison, should_stop, plain)
    for traces in filter(None, comparison.traces.values()):
        record_words(middle(traces), engine.target(plan.target).tokenizer)
    comparison.parted = partings(engine, comparison)


def partings(engine: Engine, comparison: Comparison) -> dict[str, Exactness]:
    """By method: where its greedy text first differs from plain decoding's, and the logit gap.

    Uses the repeat that differs first. Empty at a temperature, where draws decide.
    """
    plain = comparison.plain
    if plain is None or not comparison.plan.sampling.greedy:
        return {}
    found = {}
    for method, traces in comparison.traces.items():
        texts = {first_difference(trace.output_ids, plain): trace.output_ids for trace in traces}
        if places := [place for place in texts if place is not None]:
            request = comparison.plan.request(method)
            given = request, texts[min(places)], plain
            [found[method]] = borrow(engine, 1, compared, *given, should_stop=lambda: False)
    return found


def compared(
    engine: Engine, request: Request, ours: list[int], plain: list[int], _: Stop
) -> Iterator[Exactness]:
    """Where a text leaves plain decoding's, by one more call of the target."""
    run = engine.prepare(request)
    yield compare_with_plain(run.target, run.prompt_ids, ours, plain)
