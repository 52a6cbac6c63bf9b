"""A sweep over TLI's N: one prompt by plain decoding, by every trained N and by auto N, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from time import monotonic

from demo.common.methods import AUTO, VANILLA
from demo.common.turns import Counted, Progress, check_repeats, take, tokens_of, turns
from demo.engine import Engine, Request, Run
from moa_core.bench.tuning import SAME
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.drafters.auto import AutoDrafter
from moa_core.errors import UserError
from moa_core.loading.installed import method_name


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
        check_repeats(self.repeats)


@dataclass
class Sweep(Counted):
    """A plan and the finished runs: traces by method, oldest first."""

    plan: Plan
    stops: list[int] = field(default_factory=list)
    traces: dict[str, list[Trace]] = field(default_factory=dict)


def sweep(
    engine: Engine,
    made: Sweep,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Progress]:
    """Fill `made`, saying how far it is. UserError for what the visitor can mend."""
    plan = made.plan
    made.stops = engine.stops(plan.target)
    if not made.stops:
        raise UserError(
            "There is no MoA drafter for this target, so there is no N to sweep: choose another "
            "target, or train drafters with python -m moa_core train drafters"
        )
    names = swept(engine, plan)
    made.traces = {name: [] for name in names}

    def prepare(method: str, length: int) -> Run:
        return _prepare(engine, plan, method, length, should_stop)

    def keep(step: Progress, trace: Trace) -> None:
        made.traces[step.method].append(trace)

    steps = turns(names, plan.repeats)
    yield from take(steps, plan.max_new_tokens, prepare, keep, should_stop, clock)


def swept(engine: Engine, plan: Plan) -> list[str]:
    """The methods of a sweep: plain decoding, every trained N and, if asked for, auto N."""
    auto = [AUTO] if plan.auto and AUTO in engine.methods(plan.target) else []
    return [VANILLA, *(method_name("moa", stop) for stop in engine.stops(plan.target)), *auto]


def tokens_swept(engine: Engine, plan: Plan) -> int:
    """How many tokens a sweep decodes at most."""
    return tokens_of(turns(swept(engine, plan), plan.repeats), plan.max_new_tokens)


def _prepare(
    engine: Engine, plan: Plan, method: str, length: int, should_stop: Callable[[], bool]
) -> Run:
    """One run of a method. UserError for a prompt or a length that cannot be had."""
    tree = engine.tree(method, plan.target) if plan.own_trees else SAME
    request = Request(plan.prompt, method, length, tree, target=plan.target)
    if method == AUTO and plan.own_trees:
        return _auto_with_own_trees(engine, request, should_stop)
    return engine.prepare(request, should_stop)


def _auto_with_own_trees(engine: Engine, request: Request, should_stop: Callable[[], bool]) -> Run:
    """Auto N with the tree that was measured for each N; the engine's has one tree for all."""
    usual = engine.drafter(AUTO, request.target)
    assert isinstance(usual, AutoDrafter)
    drafter = usual.with_own_trees()
    run = engine.prepare(replace(request, tree=drafter.tree))
    settings = Settings(request.max_new_tokens, drafter.tree, request.sampling, run.target.eos_ids)
    events = decode(run.target, drafter, run.prompt_ids, settings, should_stop)
    run.events = engine.in_turn(run.trace.record(events))
    return run
