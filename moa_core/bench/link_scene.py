"""Who takes part: a server in a process of its own, links to it, and a client's models here."""

from __future__ import annotations

import argparse
import re
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

from moa_core.arguments import target_of, token_of
from moa_core.checkpoints import bundled_drafters, layers_needed, load_drafter
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link.connection import Address, parts_of
from moa_core.link.fetch import client_target
from moa_core.link.network import LinkSettings, link
from moa_core.link.parcel import target_mark
from moa_core.link.process import ServerProcess
from moa_core.link.program import ProxyProgram
from moa_core.names import VANILLA, listed
from moa_core.target import Target

LOCAL = "local"  # no server: target and drafter side by side, as on a server that hosts both
DIRECT = "direct"  # the server's process, with no emulated link between
STREAM = "stream"  # plain decoding there, a token pushed at a time; vanilla asks for each
METHODS = ("moa-n0", "moa-n1", "moa-n2", "moa-n3", "eagle2", "independent", STREAM, VANILLA)
PLACES = 64  # sessions: a client's next one begins before its last is cleared away


@dataclass(frozen=True)
class Cell:
    """What is measured: a method over a link, numbers travelling so, with so many clients."""

    method: str
    link: str
    numbers: str = "bf16"
    clients: int = 1

    @property
    def streams(self) -> bool:
        """Whether the server pushes tokens unasked."""
        return self.method == STREAM


@dataclass
class Scene:
    """Everything that runs. Models in this process, server and links in their own.

    target, drafters  the client's: its part of the target, fetched from the server
    whole, beside     for local decoding
    """

    url: str
    token: str
    target: Target
    drafters: dict[str, Drafter]
    whole: Target
    beside: dict[str, Drafter]
    threads: int
    server_threads: int
    own: bool  # whether nobody else uses the server
    links: dict[str, LinkSettings] = field(default_factory=dict)
    proxies: dict[tuple[str, int], ProxyProgram] = field(default_factory=dict)

    def address(self, cell: Cell, client: int = 0) -> Address:
        """Where a client of this cell finds the server."""
        if cell.link == DIRECT:
            return Address(self.url, self.token, cell.numbers)
        port = self.proxies[cell.link, client].port
        return Address(f"ws://127.0.0.1:{port}", self.token, cell.numbers)

    def metric(self, name: str) -> float:
        """One of the server's counters. UserError if it does not tell."""
        place = urlsplit(self.url).netloc
        try:
            with urllib.request.urlopen(f"http://{place}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError as error:
            raise UserError(f"The server at {place} does not tell its metrics: {error}") from None
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        if not found:
            raise UserError(f"The server at {place} has no metric {name}.")
        return float(found[1])

    def work(self) -> float:
        """Seconds that the server has worked so far."""
        return self.metric("moa_work_seconds_total")

    def settle(self, within: float = 5.0) -> None:
        """Wait until the server has noticed that its clients are gone."""
        end = monotonic() + within
        while self.own and self.metric("moa_sessions") and monotonic() < end:
            sleep(0.01)


@contextmanager
def scene(
    options: argparse.Namespace, methods: Sequence[str], links: dict[str, LinkSettings]
) -> Iterator[Scene]:
    """Start all of it, and end it. UserError if something does not fit."""
    with ExitStack() as stack:
        url, token = _server(options, stack)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moa-bench-")))
        last = max([0, *(layers_needed(name) for name in methods if name != STREAM)])
        target = client_target(Address(url, token), last, folder)
        whole = target_of(options)
        target.drafts = whole.drafts
        if target_mark(whole) != target_mark(target):
            raise UserError(f"The server's target is not {whole.name}: name it with --target.")
        made = Scene(
            url, token, target, {name: _drafter(name, target) for name in methods},
            whole, {name: _drafter(name, whole) for name in (*methods, VANILLA)},
            options.threads or 1, options.server_threads, options.server is None, dict(links),
        )  # fmt: skip
        clients = max(counts(options.clients))
        for name, settings in links.items():
            if name != DIRECT:
                for client in range(clients):
                    proxy = ProxyProgram(*parts_of(url), settings, options.seed + client)
                    made.proxies[name, client] = stack.enter_context(proxy)
        yield made


def _server(options: argparse.Namespace, stack: ExitStack) -> tuple[str, str]:
    if options.server is not None:
        return options.server, token_of(options)
    words = ["--threads", str(options.server_threads), "--max-sessions", str(PLACES)]
    words += ["--dtype", options.dtype, "--device", options.device, "--drafts", options.drafts]
    words += ["--target", options.target] if options.target else []
    server = stack.enter_context(ServerProcess(*words))
    return f"ws://127.0.0.1:{server.port}", server.token


def _drafter(name: str, target: Target) -> Drafter:
    return Vanilla() if name in (STREAM, VANILLA) else load_drafter(name, target)


def named_methods(text: str | None) -> list[str]:
    """Methods by name. UserError for one twice, or one that a server does not have."""
    known = [info.name for info in bundled_drafters()]
    if text is None:
        return [name for name in METHODS if name in (*known, STREAM, VANILLA)]
    names = listed(text, [*known, STREAM, VANILLA])
    if not names or len(set(names)) < len(names):
        raise UserError("--methods names at least one method, and none twice.")
    for name in names:
        if name not in (*known, STREAM, VANILLA):
            raise UserError(
                f"Over a link there is no {name}: choose from {', '.join(known)}, {STREAM} (plain "
                f"API streaming) and {VANILLA} (a call a token)."
            )
    return names


def named_links(specs: Sequence[str]) -> dict[str, LinkSettings]:
    """Links by what to call them: a preset's name, or else what it is. direct is always there."""
    found = {DIRECT: LinkSettings(name=DIRECT, source="No link between: loopback.")}
    for spec in specs:
        if spec == DIRECT:
            continue
        settings = link(spec)
        if settings.offline:
            raise UserError("Nothing passes an offline link: see --offline.")
        label = settings.spec if settings.name == "custom" else settings.name
        if label in found:
            raise UserError(f"--link names {label} twice.")
        found[label] = settings
    return found


def counts(text: str) -> list[int]:
    """Numbers of clients. UserError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and 1 <= int(part) <= PLACES // 2 for part in parts):
        raise UserError(f"--clients are whole numbers from 1 to {PLACES // 2}, not {text!r}.")
    return list(dict.fromkeys(map(int, parts)))
