"""The target at the other end of a link: its server, and what a client of it holds here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from torch import nn

from demo.common.methods import family
from demo.engine import Engine
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.link.client_weights import (
    cache_folder,
    client_target,
    client_weights,
    nbytes,
    target_mark,
)
from moa_core.link.connection import Address, parts_of
from moa_core.link.process import ServerProcess
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target

NO_GPU = (
    "GPUs are lent here for one run at a time, and a server is a process that stays: so this tab "
    "runs on the CPU, with the bundled models alone."
)
FAMILIES = ("moa", "given", "eagle2", "independent", "vanilla")  # offered over a link


@dataclass
class Client:
    """What this process holds of a server's target, and its drafters for it."""

    address: Address
    target: Target
    load: Callable[[Callable[[], Drafter]], Future[Drafter]]  # where models are loaded
    drafters: dict[str, Drafter] = field(default_factory=dict)

    def drafter(self, method: str, spec: str) -> Drafter:
        """The drafter of a method, loaded at first use. UserError if it does not fit."""
        if method not in self.drafters:
            self.drafters[method] = self.load(lambda: load_drafter(spec, self.target)).result()
        return self.drafters[method]

    def weighs(self, drafter: Drafter) -> dict[str, int]:
        """Bytes that a client needs for a drafter: embeddings with head and norm, the target's
        last layers, the drafter's own."""
        least = nbytes(client_weights(self.target, 0))
        layers = nbytes(client_weights(self.target, drafter.tli or 0)) - least
        net = getattr(drafter, "net", None)
        own = sum(weight.nbytes for weight in net.parameters()) if isinstance(net, nn.Module) else 0
        return {"embeddings": least, "layers": layers, "drafter": own}


class Far:
    """A server for the page's runs over a link: one that was named, or one of our own.

    Ours is a process that is started at first use and ends with this one; for another target it is
    started anew. Runs are in turn, and so are the calls of this.
    """

    def __init__(self, engine: Engine, named: Address | None = None) -> None:
        if named is not None:
            parts_of(named.url)
        self.named = named
        self._engine = engine
        self._own: ServerProcess | None = None
        self._of = ""  # the target it serves
        self._client: Client | None = None

    def methods(self, target: str = "") -> list[str]:
        """What may run over a link, in the order of the page."""
        return [name for name in self._engine.methods(target) if family(name) in FAMILIES]

    def ready(self, target: str = "") -> bool:
        """Whether nothing has to be started or fetched."""
        if self._client is None or self.named is not None:
            return self._client is not None
        return self._of == self._name(target) and self._own is not None and self._own.alive

    def client(self, target: str = "") -> Client:
        """What is needed to reach a target, started and fetched at first use. UserError if it
        cannot be."""
        if not self.ready(target):
            self._client = None
            if self.borrows and not self._engine.installed[self._name(target)].bundled:
                raise UserError(f"{NO_GPU} Choose their target above.")
            address = self.named or self._serve(self._name(target))
            self._client = Client(address, self._fetch(address, target), self._engine.worker.load)
        assert self._client is not None
        return self._client

    @property
    def borrows(self) -> bool:
        """Whether our own server has to do without a GPU: see NO_GPU."""
        return self._engine.borrows and self.named is None

    def forget(self) -> None:
        """The server is another than it was: fetch anew what a client needs."""
        self._client = None

    def same(self, target: Target) -> bool:
        """Whether a target of this process is the server's."""
        return self._client is not None and target_mark(self._client.target) == target_mark(target)

    def stop(self) -> None:
        """End our own server."""
        self.forget()
        own, self._own = self._own, None
        if own is not None:
            own.stop()

    def _name(self, target: str) -> str:
        return target or self._engine.first

    def _serve(self, target: str) -> Address:
        self.stop()
        options = self._engine.server_options(target)
        if self.borrows:
            options += ["--device", "cpu"]
        self._own, self._of = ServerProcess(*options), target
        return self._own.address()

    def _fetch(self, address: Address, target: str) -> Target:
        """The client's part of the target, with layers for every N that there is here."""
        try:
            last = max(self._engine.stops(target), default=0)
            found = self._engine.worker.load(
                lambda: client_target(address, last, drafts=self._engine.drafts)
            ).result()
        except OSError as error:
            raise UserError(f"Nothing can be kept in {cache_folder()}: {error}") from error
        if found.tokenizer is None:
            raise UserError(f"The server’s target {found.name} has no tokenizer: it reads no text.")
        return found
