"""A sweep over TLI's N: one prompt by plain decoding, by every trained N and by auto N, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from demo.common.measure import Measured, Progress, check_repeats, measure
from demo.common.methods import AUTO, VANILLA
from demo.engine import Engine, Request
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.loading.names import method_name

SAME = TreeSettings(5, 4, 12)  # one tree for all, so that only N differs


@dataclass(frozen=True)
class Plan:
    """What a sweep is to do, in the order of the tab's controls. A link carries all of it.

    trees  own: each N with the tree measured for it; same: one tree for all
    auto   auto N, too
    UserError for a number of repeats that is not offered.
    """

    prompt: str
    tokens: int = 96
    repeats: int = 2
    trees: str = "same"
    auto: bool = True
    target: str = ""

    def __post_init__(self) -> None:
        check_repeats(self.repeats)


def sweep(
    engine: Engine, plan: Plan, made: Measured, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[Progress]:
    """Fill `made`, saying how far it is. UserError for what the visitor can mend."""
    stops = engine.stops(plan.target)
    if not stops:
        raise UserError(
            "There is no MoA drafter for this target, so there is no N to sweep: choose another "
            "target, or train drafters with python -m moa_core train drafters"
        )
    auto = [AUTO] if plan.auto and AUTO in engine.methods(plan.target) else []
    tree = SAME if plan.trees == "same" else None
    requests = {
        name: Request(plan.prompt, name, plan.tokens, tree, target=plan.target)
        for name in (VANILLA, *(method_name("moa", stop) for stop in stops), *auto)
    }
    yield from measure(engine, requests, plan.repeats, made, should_stop)
