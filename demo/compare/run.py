"""One prompt through several methods, in turns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from demo.common.charts import middle
from demo.common.measure import Measured, Progress, measure, turns
from demo.common.methods import RIVAL, VANILLA, ordered
from demo.engine import Engine, Request
from demo.worker import Stop
from demo.zero import borrow
from moa_core.bench.records import Recording
from moa_core.decoding.verify import Exactness, compare_with_plain, first_difference
from moa_core.errors import UserError
from moa_core.text import record_words

FEWEST, MOST = 2, 5


@dataclass(kw_only=True)
class Comparison(Measured):
    """What is to be compared, and the finished runs.

    asked    what each method runs
    methods  2 to 5 names, each once; UserError for fewer or more
    parted   by method: where its greedy text first differs from plain decoding's
    """

    asked: Request
    methods: tuple[str, ...]
    parted: dict[str, Exactness] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not FEWEST <= len(self.methods) <= MOST:
            chosen = {0: "none is", 1: "only 1 is"}.get(len(self.methods))
            raise UserError(
                f"Choose {FEWEST} to {MOST} methods to compare: "
                f"{chosen or f'{len(self.methods)} are'} chosen."
            )

    def request(self, method: str) -> Request:
        return replace(self.asked, method=method)


def usual(engine: Engine, target: str = "") -> list[str]:
    """The default methods: the first screen's, EAGLE-2 and vanilla."""
    return ordered({engine.default(target), RIVAL, VANILLA} & set(engine.methods(target)))


def recorded_time(
    found: Recording | None, methods: Sequence[str], repeats: int, tokens: int
) -> str:
    """How long such a comparison takes at a benchmark's speeds; "" if it lacks a method."""
    known = found.methods if found else {}
    steps = turns(methods, repeats, tokens, VANILLA not in methods)
    if any(step.method not in known for step in steps):
        return ""
    seconds = sum(step.tokens / known[step.method]["tokens_per_second"] for step in steps)
    return f", about {seconds:.0f} s at the recorded speeds"


def compare(engine: Engine, comparison: Comparison, should_stop: Stop) -> Iterator[Progress]:
    """Fill a comparison run by run, yielding progress. UserError before the first yield."""
    methods = comparison.methods
    requests = {method: comparison.request(method) for method in methods}
    try:
        for step in measure(engine, requests, comparison, should_stop, VANILLA not in methods):
            _put_into_words(engine, comparison)
            yield step
    finally:  # what is finished can be shown though a run fails
        _put_into_words(engine, comparison)
    comparison.parted = partings(engine, comparison)


def _put_into_words(engine: Engine, comparison: Comparison) -> None:
    for traces in filter(None, comparison.traces.values()):
        if "words" not in (trace := middle(traces)).about:
            record_words(trace, engine.target(comparison.asked.target).tokenizer)


def partings(engine: Engine, comparison: Comparison) -> dict[str, Exactness]:
    """By method: where its greedy text first differs from plain decoding's, and the logit gap.

    Uses the repeat that differs first. Empty at a temperature, where draws decide.
    """
    plain = comparison.plain
    if plain is None or not comparison.asked.sampling.greedy:
        return {}
    found = {}
    for method, traces in comparison.traces.items():
        texts = {first_difference(trace.output_ids, plain): trace.output_ids for trace in traces}
        if places := [place for place in texts if place is not None]:
            given = comparison.request(method), texts[min(places)], plain
            [found[method]] = borrow(engine, 1, compared, *given, should_stop=lambda: False)
    return found


def compared(
    engine: Engine, request: Request, ours: list[int], plain: list[int], _: Stop
) -> Iterator[Exactness]:
    """Where a text leaves plain decoding's, by one more call of the target."""
    run = engine.prepare(request)
    yield compare_with_plain(run.target, run.prompt_ids, ours, plain)
