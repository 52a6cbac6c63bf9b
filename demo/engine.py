"""The models of this process: loaded once, and decoding for one visitor at a time."""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import torch

from demo.common.figures import listed, many
from demo.common.methods import family, label, ordered, tli_of
from demo.worker import Stop, Worker
from demo.zero import borrow
from moa_core.decoding.decode import Settings, about, check_prompt, decode
from moa_core.decoding.offline import FarTarget
from moa_core.decoding.trace import Event, Trace
from moa_core.decoding.tree import AUTO as SIZED
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Stepwise
from moa_core.errors import UserError
from moa_core.loading import hub
from moa_core.loading.catalog import DEFAULT_DRAFTER, DrafterInfo, Installed, bundle
from moa_core.loading.hub import silent
from moa_core.loading.hub import size as amount
from moa_core.loading.load import load_method, load_target, pick_device
from moa_core.model.target import Target, parameters
from moa_core.text import prompt_ids

log = logging.getLogger(__name__)
T = TypeVar("T")

MOST_NEW_TOKENS = 512
FIXED_TREE = TreeSettings()  # the page's, where trees do not size themselves
IN_INT8 = ", int8"  # after the default target's name: the same in another precision
PATIENCE = 30.0  # seconds to wait for a lost link when the drafter has no more to write


@dataclass(frozen=True)
class Request:
    """What a visitor asks for.

    method  moa-n0 ..., eagle2, ..., ngram, vanilla
    target  one of the installed; "": the first
    """

    prompt: str
    method: str = DEFAULT_DRAFTER
    max_new_tokens: int = 128
    tree: TreeSettings = SIZED
    sampling: Sampling = field(default_factory=Sampling)
    target: str = ""


@dataclass
class PreparedRun:
    """A run that is ready to start: consume `events`, then read `trace`."""

    target: Target
    prompt_ids: list[int]
    trace: Trace
    events: Iterator[Event]


class Engine:
    """Targets and drafters by name.

    target    a name, folder or Hub id to offer before the installed ones
    drafters  by method, to offer for the first target in place of the installed ones
    loading   how to load the first target: what `load_target` takes besides its name
    """

    def __init__(
        self,
        target: str | None = None,
        drafters: Mapping[str, DrafterInfo] | None = None,
        loading: Mapping[str, Any] | None = None,
    ) -> None:
        self.given = dict(drafters or {})
        self.worker = Worker()
        self.borrows = False  # whether a GPU is available only during runs
        self._named, self._how = target, dict(loading or {})
        self._said: dict[str, str] = {}
        self._facts: dict[str, str] = {}
        self._loading: dict[Any, Future[Any]] = {}  # of targets by name, of drafters by both names
        self._drafters: dict[str, dict[str, Drafter]] = {}  # by target and method
        self._lock = Lock()

    @cached_property
    def installed(self) -> dict[str, Installed]:
        """The available targets by name; the first is the default."""
        try:
            ours = bundle()
            there = {ours.target: ours}
        except UserError as error:  # the page opens anyway and says what is missing
            log.warning("no bundle: %s", error)
            there = {}
        first = self._named or next(iter(there), "")
        found = there.get(first, Installed(first, {}))
        if self.given:
            found = Installed(first, self.given)
        in_int8 = {first + IN_INT8: found} if first == hub.DEFAULT and self._on_cpu else {}
        others = {name: one for name, one in there.items() if name != first}
        return {first: found, **in_int8, **others}

    @property
    def _on_cpu(self) -> bool:
        """Whether the first target runs on a CPU, in the precision that suits it."""
        free = self._how.get("dtype", "auto") == "auto" and not self._how.get("bits")
        return free and pick_device(self._how.get("device", "auto")).type == "cpu"

    @property
    def first(self) -> str:
        return next(iter(self.installed))

    def methods(self, target: str = "") -> list[str]:
        return ordered(self._of(target).methods)

    def stops(self, target: str = "") -> list[int]:
        """Every N for which the target has a MoA drafter."""
        return [tli_of(name) for name in self.methods(target) if family(name) == "moa"]

    def default(self, target: str = "") -> str:
        """MoA with the fewest target layers: the fastest."""
        stops = self.stops(target)
        return f"moa-n{min(stops)}" if stops else self.methods(target)[0]

    @property
    def busy(self) -> bool:
        """Whether a run is in progress that others must wait for."""
        return self.worker.turn.locked() and not self.worker.gives_way

    def ready(self, target: str = "") -> bool:
        loading = self._loading.get(target or self.first)
        return loading is not None and loading.done()

    def start(self, target: str = "") -> Future[Target]:
        name = target or self.first
        if name not in self.installed:
            raise UserError(f"There is no target {name!r} here: choose one that is installed.")
        return self._once(name, lambda: self._load(name))

    def _once(self, what: Any, load: Callable[[], T]) -> Future[T]:
        """What was loaded, or is being loaded; tried again if it failed, as downloads may."""
        with self._lock:
            known = self._loading.get(what)
            if known is None or (known.done() and known.exception()):
                known = self._loading[what] = self.worker.load(load)
            return known

    def _load(self, name: str) -> Target:
        spec = name.removesuffix(IN_INT8)
        how = dict(self._how) if spec == self.first else {}
        report = how.pop("report", silent)
        if spec != name:
            how["dtype"] = "int8"

        def heard(words: str) -> None:
            self._said[name] = words
            report(words)

        default = spec == hub.DEFAULT and self._named is None
        return load_target(None if default else spec, **how, report=heard)

    def said(self, target: str = "") -> str:
        """The progress of loading a target; "" before there is any."""
        return self._said.get(target or self.first, "")

    def load_here(self) -> None:
        """Load all models now, in this thread; failures are reported when a model is used."""
        self.worker.inline = True
        for name in self.installed:
            for method in self.methods(name):
                try:
                    self.drafter(method, name)
                except UserError as error:
                    log.warning("%s for %s: %s", method, name, error)

    def target(self, name: str = "") -> Target:
        """A target; waits until it is loaded. UserError if it cannot be."""
        target = self.start(name).result()
        if target.tokenizer is None:
            raise UserError(f"The target {target.name} has no tokenizer, so it cannot read text.")
        return target

    def drafter(self, method: str, target: str = "") -> Drafter:
        """The drafter of a method, loaded at first use. UserError if there is none."""
        if refusal := self.refusal(method, target):
            raise UserError(refusal)
        models, there = self._of(target), self.target(target)
        mine = self._drafters.setdefault(target or self.first, {})

        def load() -> Drafter:
            mine[method] = load_method(models, method, there, mine)
            return mine[method]

        return self._once((target or self.first, method), load).result()

    def refusal(
        self, method: str, target: str = "", called: Callable[[str], str] = label
    ) -> str | None:
        """Why a method cannot run, as a sentence; None if it can. called: names methods in it."""
        there = self.methods(target)
        if method in there:
            return None
        stops, tli = self.stops(target), tli_of(method)
        if family(method) == "moa" and stops and tli not in stops:
            return f"No drafter here has N = {tli}: choose N = {listed([*map(str, stops)], 'or')}."
        return (
            f"There is no {called(method)} drafter for this target: choose from "
            f"{', '.join(called(name) for name in there)}."
        )

    def _of(self, target: str) -> Installed:
        return self.installed.get(target or self.first) or Installed(target, {})

    def describe(self, target: str = "") -> str:
        """Target, device, number format, memory and threads in a line."""
        name = target or self.first
        if name in self._facts:  # with a borrowed GPU, weights are elsewhere between runs
            return self._facts[name]
        there = self.target(target)
        need, device = there.need, there.device.type
        facts = [
            f"Target {there.name}, {parameters(there.model) / 1e6:,.1f} M parameters",
            "a GPU borrowed for each run" if self.borrows else device.upper(),
            need.form if need else there.precision,
            *([f"{amount(need.total)} of memory for models and cache"] if need else []),
        ]
        if device == "cpu" and not self.borrows:
            facts.append(many(torch.get_num_threads(), "thread"))
        return self._facts.setdefault(name, " · ".join(facts))

    def prepare(
        self,
        request: Request,
        should_stop: Stop = lambda: False,
        link: Callable[[Target, Drafter], FarTarget] | None = None,
        patience: float = PATIENCE,
    ) -> PreparedRun:
        """Prepare a run. UserError for anything that the visitor can fix.

        link  wraps target and drafter, if that can write alone, in a link that may be lost for at
              most `patience`
        """
        if request.max_new_tokens > MOST_NEW_TOKENS:
            raise UserError(f"A run has at most {MOST_NEW_TOKENS} new tokens.")
        drafter = self.drafter(request.method, request.target)
        target = self.target(request.target)
        ids = prompt_ids(target.tokenizer, request.prompt)
        check_prompt(ids, target)
        if not isinstance(drafter, Stepwise) or self.borrows:
            link = None
        wanted = request.max_new_tokens, request.tree, request.sampling
        settings = Settings(*wanted, target.eos_ids, patience if link else 0.0)
        asked = {"method": request.method, "prompt": request.prompt}
        trace = Trace({**about(target, drafter, settings), **asked})
        if self.borrows:
            events = borrow(self, request.max_new_tokens, decoded, request, should_stop=should_stop)
        else:
            far = {"remote": link(target, drafter)} if link else {}
            made = decode(target, drafter, ids, settings, should_stop, **far)
            events = self.worker.run(made)
        return PreparedRun(target, ids, trace, trace.record(events))


def decoded(engine: Engine, request: Request, should_stop: Stop) -> Iterator[Event]:
    with closing(engine.prepare(request, should_stop).events) as events:
        yield from events
