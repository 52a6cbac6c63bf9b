"""Serve a target and its drafters' server outputs to clients over a network."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING

from moa_core.arguments import add_target, add_token, chosen_preset, target_of, token_of
from moa_core.errors import UserError
from moa_core.runtime import use_threads

if TYPE_CHECKING:
    from moa_core.drafters.base import Drafter
    from moa_core.link.session import Limits
    from moa_core.model.target import Target

END_WITHIN = 8.0  # seconds for a clean end once the parent has ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    # fmt: off
    add = parser.add_argument
    add("--drafter", action="append", default=[], help="serve this one besides the bundled ones")
    add("--host", default="127.0.0.1", help="address to listen on; default: this machine only")
    add("--port", type=int, default=8765, help="0: any free one")
    add_token(parser, "the access token that clients must send")
    add("--max-sessions", type=int, default=16, help="clients at once")
    add("--max-context", type=int, default=4096, help="tokens of cache for each")
    add("--idle", type=float, default=600.0, help="seconds until an idle client is sent away")
    add("--threads", type=int, help="CPU threads; default: one for each core")
    add("--with-parent", action="store_true", help="end when standard input does")
    # fmt: on


def run(options: argparse.Namespace) -> None:
    try:
        options.host.encode("idna")  # as it will be looked up
    except UnicodeError:
        raise UserError(f"{options.host!r} is not the name of a host.") from None
    options.token = token_of(options)
    limits = _limits(options)
    if preset := chosen_preset(options):
        options.drafter = [*preset.by_method.values(), *options.drafter]
    use_threads(options.threads)
    if options.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    import asyncio

    from moa_core.link.server import Server
    from moa_core.runtime import quiet

    quiet()
    target = target_of(options, options.drafter)
    server = Server(target, _drafters(options.drafter, target), options.token, limits)
    host = f"[{options.host}]" if ":" in options.host else options.host

    def ready(port: int) -> None:
        print(f"serving {target.name} at ws://{host}:{port}", flush=True)

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError):  # Windows: ends without cleaning up
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await server.run(options.host, options.port, ready)

    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(serve())
    except OSError as error:
        raise UserError(f"Cannot listen on {host}:{options.port}: {error}") from error


def _drafters(names: list[str], target: Target) -> Callable[[str], Drafter]:
    """Loads the bundled drafters and the named ones, these at once, so that mistakes show early."""
    from moa_core.loading.catalog import bundled_drafters
    from moa_core.loading.load import load_drafter

    known = {info.name for info in bundled_drafters()}
    named: dict[str, Drafter] = {}
    for spec in dict.fromkeys(names):
        drafter = load_drafter(spec, target)
        if drafter.name in named:
            raise UserError(f"Two drafters are called {drafter.name}: rename the folder of one.")
        named[drafter.name] = drafter

    def load(name: str) -> Drafter:
        if name in named:  # a folder's drafter goes by the folder's last name, here and there
            return named[name]
        if name not in known:  # a client must not make this machine open folders or download
            raise UserError(f"it serves {', '.join(sorted(known | set(named))) or 'none'}")
        return load_drafter(name, target)

    return load


def _limits(options: argparse.Namespace) -> Limits:
    from moa_core.link.session import Limits

    if not 0 <= options.port < 65536:
        raise UserError("A port is a number from 0 to 65535.")
    for name in ("max_sessions", "idle"):
        if not getattr(options, name) > 0:
            raise UserError(f"--{name.replace('_', '-')} must be above 0.")
    if options.max_context < 2:
        raise UserError("--max-context must be at least 2: a token to read and one to write.")
    if options.host not in ("127.0.0.1", "localhost", "::1") and not options.token:
        raise UserError("Other machines can reach this address: set MOA_TOKEN to a secret.")
    return Limits(options.max_sessions, options.max_context, options.idle)


def _end_with_parent() -> None:
    """The parent process holds the other end of our standard input."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(END_WITHIN)
    os._exit(0)
