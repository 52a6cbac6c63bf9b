"""One prompt through several methods, in turns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from demo.common.charts import middle
from demo.common.measure import Measured, Progress, measure, turns
from demo.common.methods import RIVAL, VANILLA, ordered
from demo.engine import Engine, Request
from demo.worker import Stop
from moa_core.bench.records import Recording
from moa_core.errors import UserError
from moa_core.text import record_words

FEWEST, MOST = 2, 5


@dataclass(kw_only=True)
class Comparison(Measured):
    """What is to be compared, and the finished runs.

    asked    what each method runs
    methods  2 to 5 names, each once; UserError for fewer or more
    """

    asked: Request
    methods: tuple[str, ...]

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
    return f", about {seconds:.0f} s at Benchmarks’ speeds"


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


def _put_into_words(engine: Engine, comparison: Comparison) -> None:
    for traces in filter(None, comparison.traces.values()):
        if "words" not in (trace := middle(traces)).about:
            record_words(trace, engine.target(comparison.asked.target).tokenizer)
