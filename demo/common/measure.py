"""Several methods take turns on one prompt: the order, what counts, and progress."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

from demo.common.methods import VANILLA, label
from demo.engine import Engine, Request
from demo.worker import Stop
from demo.zero import borrow
from moa_core.decoding.trace import Trace
from moa_core.errors import UserError

MOST_REPEATS = 5
WARM_UP = 16  # tokens that each method decodes first, uncounted
INTERVAL = 0.25  # seconds between progress updates, which take time from the runs


@dataclass(frozen=True)
class Progress:
    """The current run, and the overall progress.

    phase   warm-up (not counted), plain (plain decoding for its text, not counted), run
    tokens  the most that it decodes
    share   of the whole work that is done, 0 to 1
    run     number of this counted run, from 1, of `runs`; 0 before the first
    """

    phase: str
    method: str
    tokens: int
    share: float = 0.0
    repeat: int = 0
    repeats: int = 0
    run: int = 0
    runs: int = 0

    @property
    def words(self) -> str:
        """A counted run: its method and repeat."""
        if self.phase == "warm-up":
            return f"Warming up {label(self.method)} (not counted)."
        if self.phase == "plain":
            return "Plain decoding, not counted: its text is the reference."
        return (
            f"Repeat {self.repeat} of {self.repeats}: {label(self.method)} "
            f"(run {self.run} of {self.runs})."
        )


@dataclass
class Measured:
    """The counted runs by method, oldest first; stopped ones are left out.

    reference  a run of plain decoding for its text, if plain decoding is not compared
    """

    traces: dict[str, list[Trace]] = field(default_factory=dict)
    repeats: int = 1
    reference: Trace | None = None

    @property
    def finished(self) -> int:
        return sum(map(len, self.traces.values()))

    @property
    def wanted(self) -> int:
        return self.repeats * len(self.traces)

    @property
    def plain(self) -> list[int] | None:
        """Plain decoding's token ids, if it has finished."""
        own = self.traces.get(VANILLA) or ([self.reference] if self.reference else [])
        return own[0].output_ids if own else None


def turns(methods: Sequence[str], repeats: int, tokens: int, plain: bool) -> list[Progress]:
    """Every run in order: each method's warm-up, then the counted ones, of `tokens` each.

    Each repeat starts with another method, so that other load on the machine affects all of
    them. plain: also an uncounted run of plain decoding.
    """
    found = [Progress("warm-up", method, min(WARM_UP, tokens)) for method in methods]
    if plain:
        found.append(Progress("plain", VANILLA, tokens))
    runs = repeats * len(methods)
    for run in range(runs):
        repeat, place = divmod(run, len(methods))
        method = methods[(repeat + place) % len(methods)]
        found.append(Progress("run", method, tokens, 0.0, repeat + 1, repeats, run + 1, runs))
    return found


def measure(
    engine: Engine, requests: Mapping[str, Request], measured: Measured,
    should_stop: Stop = lambda: False, plain: bool = False,
) -> Iterator[Progress]:  # fmt: skip
    """Run the requests, named by method, in turns; fill `measured` and yield the progress.
    A stopped run is dropped and ends the measurement; called again with the same `measured`, it
    goes on with the runs that are left. UserError before the first yield.

    plain  also an uncounted run of plain decoding, for its text
    """
    first = next(iter(requests.values()))
    for request in requests.values():
        if refusal := engine.refusal(request.method, request.target):
            raise UserError(refusal)
    engine.prepare(first)  # refuses a prompt or a length
    steps = turns(list(requests), measured.repeats, first.max_new_tokens, plain)
    if plain:
        requests = {**requests, VANILLA: replace(first, method=VANILLA)}
    measured.traces = measured.traces or {one.method: [] for one in steps if one.run}
    # The counted runs come last; one that is there needs no warm-up anew.
    first = len(steps) - measured.wanted + measured.finished if measured.finished else 0
    tokens = sum(step.tokens for step in steps[first:])
    made = borrow(engine, tokens, taken, dict(requests), steps, first, should_stop=should_stop)
    with closing(made) as said:
        for step, trace in said:
            if trace is None:
                yield step
            elif step.phase == "plain":
                measured.reference = trace
            else:
                measured.traces[step.method].append(trace)


def taken(
    engine: Engine, requests: Mapping[str, Request], steps: Sequence[Progress], first: int,
    should_stop: Stop,
) -> Iterator[tuple[Progress, Trace | None]]:  # fmt: skip
    """Do the runs from the first on. Yields progress, and each finished run except warm-ups."""
    total, done = (sum(step.tokens for step in part) for part in (steps, steps[:first]))
    for step in steps[first:]:
        yield replace(step, share=done / total), None
        if should_stop():
            return
        request = replace(requests[step.method], max_new_tokens=step.tokens)
        run, due = engine.prepare(request, should_stop), monotonic() + INTERVAL
        with closing(run.events):
            for _ in run.events:
                if monotonic() >= due:
                    share = (done + len(run.trace.output_ids)) / total
                    yield replace(step, share=share), None
                    due = monotonic() + INTERVAL
        if run.trace.reason == "stopped":
            return
        if step.phase != "warm-up":
            yield step, run.trace
        done += step.tokens
