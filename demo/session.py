"""Models loaded once per process, one visitor's runs, and the limits both keep."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

import torch

from moa_core.checkpoints import (
    DEFAULT_DRAFTER,
    DrafterInfo,
    bundled_drafters,
    load_drafter,
    load_target,
)
from moa_core.decode import Settings, about, check_prompt, decode
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.target import Target
from moa_core.text import prompt_ids
from moa_core.trace import Event, Trace
from moa_core.tree import TreeSettings
from moa_core.verify import Sampling

log = logging.getLogger(__name__)

MOST_NEW_TOKENS = 512
METHODS = {"moa": "MoA", "eagle2": "EAGLE-2", "given": "Drafter", "vanilla": "Vanilla"}


@dataclass(frozen=True)
class Request:
    """What a visitor asks for. tree None: the drafter's measured default."""

    prompt: str
    method: str = "moa"
    tli: int = 0
    max_new_tokens: int = 128
    tree: TreeSettings | None = None
    sampling: Sampling = field(default_factory=Sampling)


@dataclass
class Run:
    """One decoding about to happen: consume `events`, then read `trace`."""

    target: Target
    prompt_ids: list[int]
    trace: Trace
    events: Iterator[Event]


class Visit:
    """One visitor's runs: a new one ends the last, and Stop ends the newest."""

    def __init__(self) -> None:
        self.number = 0
        self._stopped = 0

    def begin(self) -> None:
        """A new run; its number is the newest."""
        self.number += 1

    def stop(self) -> None:
        """End the newest run, even if it still waits for its turn."""
        self._stopped = self.number

    def ended(self, number: int) -> bool:
        """Whether the run of this number must end."""
        return number != self.number or number <= self._stopped


class Engine:
    """The models of this process, loaded once; decodes for one visitor at a time."""

    def __init__(self, target: str | None = None, drafter: str | None = None) -> None:
        self.given = drafter
        self._target_name = target
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._loading: Future[Target] | None = None
        self._drafters: dict[tuple[str, int], Drafter] = {}
        self._lock = Lock()
        self._turn = Lock()

    @cached_property
    def offers(self) -> dict[tuple[str, int], DrafterInfo]:
        """The drafters there are, by method and N."""
        try:
            found = [] if self.given else bundled_drafters()
        except UserError as error:  # the page opens all the same, and says what is missing
            log.warning("no bundled drafters: %s", error)
            found = []
        return {(info.method, info.tli): info for info in found}

    @property
    def methods(self) -> list[str]:
        """Methods to choose from; vanilla is always there."""
        return ["given", "vanilla"] if self.given else ["moa", "eagle2", "vanilla"]

    @property
    def stops(self) -> list[int]:
        """Every N that a MoA drafter was trained for."""
        return sorted(tli for method, tli in self.offers if method == "moa")

    @property
    def default(self) -> tuple[str, int]:
        """Method and N to begin with."""
        if self.given:
            return "given", 0
        named = {info.name: key for key, info in self.offers.items()}
        return named.get(DEFAULT_DRAFTER) or next(iter(sorted(self.offers)), ("vanilla", 0))

    @property
    def busy(self) -> bool:
        """Whether a run is going on."""
        return self._turn.locked()

    @property
    def ready(self) -> bool:
        """Whether the target is there, or is known not to load."""
        return self._loading is not None and self._loading.done()

    def start(self) -> None:
        """Begin loading behind the page's back."""
        with self._lock:
            if self._loading is None:
                self._loading = self._pool.submit(load_target, self._target_name)

    def target(self) -> Target:
        """The target, once it is there. UserError if it cannot be loaded."""
        self.start()
        target = self._loading.result()
        if target.tokenizer is None:
            raise UserError(f"The target {target.name} has no tokenizer, so it cannot read text.")
        return target

    def drafter(self, method: str, tli: int) -> Drafter:
        """The drafter of a method and N, loaded at first use. UserError if there is none."""
        refusal = self.refusal(method, tli)
        if refusal:
            raise UserError(refusal)
        key = (method, tli if method == "moa" else 0)
        target = self.target()
        with self._lock:
            if key not in self._drafters:
                spec = {"vanilla": "none", "given": self.given}.get(method)
                self._drafters[key] = load_drafter(spec or self.offers[key].name, target)
            return self._drafters[key]

    def refusal(self, method: str, tli: int) -> str | None:
        """Why a method at an N cannot run, in one sentence; None if it can."""
        if method not in self.methods:
            return f"There is no method {method!r}: choose from {', '.join(self.methods)}."
        if method == "eagle2" and ("eagle2", 0) not in self.offers:
            return (
                "No EAGLE-2 drafter is trained for this target: choose another method, or train "
                "one with python -m moa_core train drafters --methods eagle2"
            )
        if method == "moa" and tli not in self.stops:
            there = ", ".join(str(stop) for stop in self.stops) or "none"
            return (
                f"No MoA drafter is trained for TLI N = {tli} (trained: {there}): choose another "
                f"stop, or train one with python -m moa_core train drafters --methods moa-n{tli}"
            )
        return None

    def tree(self, method: str, tli: int) -> TreeSettings:
        """The measured default tree of a drafter; ours where nothing was measured."""
        info = self.offers.get((method, tli if method == "moa" else 0))
        return info.tree if info else TreeSettings()

    def describe(self) -> str:
        """Target, drafters and machine, in a line."""
        target = self.target()
        drafters = [self.given] if self.given else [info.name for info in self.offers.values()]
        size = sum(weight.numel() for weight in target.model.parameters())
        kind = str(target.dtype).removeprefix("torch.")
        parts = [
            f"Target {target.name}, {size / 1e6:,.1f} M parameters",
            f"drafters {', '.join(drafters)}" if drafters else "no drafter",
            f"{target.device.type.upper()}, {kind}",
        ]
        if target.device.type == "cpu":
            threads = torch.get_num_threads()
            parts.append(f"{threads} thread{'s' if threads > 1 else ''}")
        return " · ".join(parts)

    def prepare(self, request: Request, should_stop: Callable[[], bool] = lambda: False) -> Run:
        """Everything up to the first event. UserError for whatever the visitor can mend."""
        if request.max_new_tokens > MOST_NEW_TOKENS:
            raise UserError(f"At most {MOST_NEW_TOKENS} new tokens are decoded in one run.")
        drafter = self.drafter(request.method, request.tli)
        target = self.target()
        ids = prompt_ids(target.tokenizer, request.prompt)
        check_prompt(ids, target)
        tree = request.tree or self.tree(request.method, request.tli)
        settings = Settings(request.max_new_tokens, tree, request.sampling, target.eos_ids)
        trace = Trace({**about(target, drafter, settings), "method": request.method})
        events = decode(target, drafter, ids, settings, should_stop)
        return Run(target, ids, trace, self._in_turn(trace.record(events)))

    def _in_turn(self, events: Iterator[Event]) -> Iterator[Event]:
        """The events, when no other run is going on."""
        with self._turn, closing(events):
            yield from events
