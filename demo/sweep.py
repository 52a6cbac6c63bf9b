"""A sweep over TLI's N: one prompt by plain decoding, by every trained N and by auto N, in turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

from demo.engine import Engine, Request, Run
from demo.methods import label
from moa_core.bench.runs import in_turn
from moa_core.bench.tuning import SAME
from moa_core.decode import Settings, about, decode
from moa_core.drafters.auto import AutoDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.installed import method_name
from moa_core.trace import Trace, Verified

AUTO, VANILLA = "moa-auto", "vanilla"
WARM_UP = 16  # tokens that each method decodes first, not counted
INTERVAL = 0.3  # seconds between two words on progress
MOST_REPEATS = 5


@dataclass(frozen=True)
class Plan:
    """What a sweep is to do. UserError for a number of repeats that is not offered.

    own_trees  each N with the tree measured for it; else one tree for all, so that only N differs
    auto       auto N, too
    """

    prompt: str
    max_new_tokens: int = 96
    repeats: int = 2
    own_trees: bool = False
    auto: bool = True
    target: str = ""

    def __post_init__(self) -> None:
        count = self.repeats
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_REPEATS:
            raise UserError(f"The number of repeats must be a whole number, 1 to {MOST_REPEATS}.")


@dataclass(frozen=True)
class Progress:
    """How far a sweep is: words, and counted runs done (with a part of the present one) of all."""

    words: str
    done: float = 0.0
    total: int = 0


@dataclass
class Sweep:
    """A plan and the finished runs: traces by method, oldest first. A stopped run is dropped."""

    plan: Plan
    stops: list[int] = field(default_factory=list)
    traces: dict[str, list[Trace]] = field(default_factory=dict)

    @property
    def finished(self) -> int:
        """Counted runs that were finished."""
        return sum(map(len, self.traces.values()))

    @property
    def wanted(self) -> int:
        """Counted runs that the plan asks for."""
        return self.plan.repeats * len(self.traces)


def name_of(method: str) -> str:
    """moa-n1 -> MoA N=1, moa-auto -> Auto N."""
    return "Auto N" if method == AUTO else label(method)


def sweep(
    engine: Engine,
    made: Sweep,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Progress]:
    """Fill `made`, saying how far it is. UserError for what the visitor can mend.

    Methods take turns over the repeats, each time another one first, so that whatever else the
    machine does meets all of them.
    """
    plan = made.plan
    made.stops = engine.stops(plan.target)
    if not made.stops:
        raise UserError(
            "There is no MoA drafter for this target, so there is no N to sweep: choose another "
            "target, or train drafters with python -m moa_core train drafters"
        )
    auto = [AUTO] if plan.auto and len(made.stops) > 1 else []
    names = [VANILLA, *(method_name("moa", stop) for stop in made.stops), *auto]
    made.traces = {name: [] for name in names}
    for name in names:
        if should_stop():
            return
        yield Progress(f"Warming up {name_of(name)}, not counted", 0, made.wanted)
        run = _prepare(engine, plan, name, should_stop, WARM_UP)
        yield from _follow(run, lambda _: None, clock)
    for repeat, _, name in in_turn(names, plan.repeats, [plan.prompt]):
        if should_stop():
            return
        number = made.finished + 1
        words = f"Repeat {repeat + 1} of {plan.repeats}: {name_of(name)}"
        words += f" (run {number} of {made.wanted})"
        run = _prepare(engine, plan, name, should_stop)
        yield from _follow(run, _telling(words, number, made.wanted, plan.max_new_tokens), clock)
        if run.trace.reason == "stopped":
            return
        made.traces[name].append(run.trace)
    yield Progress("", made.wanted, made.wanted)


def _telling(words: str, number: int, total: int, length: int) -> Callable[[int], Progress]:
    """From tokens written so far to how far the whole sweep is."""
    return lambda tokens: Progress(words, number - 1 + min(tokens / length, 1), total)


def _follow(
    run: Run, tell: Callable[[int], Progress | None], clock: Callable[[], float]
) -> Generator[Progress, None, None]:
    """Decode to the end, telling now and then how many tokens there are."""
    tokens, due = 1, clock()
    with closing(run.events):
        for event in run.events:
            tokens += len(event.emitted) if isinstance(event, Verified) else 0
            if clock() >= due:
                said = tell(tokens)
                if said:
                    yield said
                due = clock() + INTERVAL


def _prepare(
    engine: Engine,
    plan: Plan,
    method: str,
    should_stop: Callable[[], bool],
    most: int = 10**9,
) -> Run:
    """One run of a method. UserError for a prompt or a length that cannot be had."""
    tree = engine.tree(method, plan.target) if plan.own_trees else SAME
    length = min(most, plan.max_new_tokens)
    request = Request(plan.prompt, method, length, tree, target=plan.target)
    if method == AUTO:
        return _prepare_auto(engine, request, plan.own_trees, should_stop)
    return engine.prepare(request, should_stop)


def auto_drafter(engine: Engine, target: str, own_trees: bool) -> AutoDrafter:
    """Auto N over every N that is trained for a target."""
    names = {stop: method_name("moa", stop) for stop in engine.stops(target)}
    loaded = [engine.drafter(name, target) for name in names.values()]
    trees = {stop: engine.tree(name, target) for stop, name in names.items()}
    candidates = [one for one in loaded if isinstance(one, MoADrafter)]
    return AutoDrafter(candidates, trees=trees if own_trees else None)


def _prepare_auto(
    engine: Engine, request: Request, own_trees: bool, should_stop: Callable[[], bool]
) -> Run:
    plain = engine.prepare(replace(request, method=VANILLA))  # reads the prompt; decodes nothing
    drafter = auto_drafter(engine, request.target, own_trees)
    tree = drafter.tree if own_trees else request.tree or SAME
    settings = Settings(request.max_new_tokens, tree, request.sampling, plain.target.eos_ids)
    set_up = about(plain.target, drafter, settings)
    trace = Trace({**plain.trace.about, **set_up, "method": AUTO})
    events = decode(plain.target, drafter, plain.prompt_ids, settings, should_stop)
    return Run(plain.target, plain.prompt_ids, trace, engine.in_turn(trace.record(events)))
