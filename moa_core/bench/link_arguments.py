"""What `bench` takes to measure links, and to go on without one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

from moa_core.arguments import add_token
from moa_core.errors import UserError

# What a mode is asked for by, and the module whose `run` does it.
_MODES = {"link": "link", "offline": "offline"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two modes of their own, each of which writes --out FILE.json. They share the options above:
    --methods, --suite, --limit, --repeat, --max-new-tokens, --tree, --seed, --threads."""
    link = parser.add_argument_group(
        "a server and its client",
        "the server a process of its own, the link emulated; --out FILE.json",
    )
    link.add_argument(
        "--link",
        action="append",
        metavar="LINK",
        help="measure over this one: a preset, rtt=60,down=9,up=1.5, or direct; again for more. "
        "--methods: bundled drafters, stream (plain API streaming)",
    )
    link.add_argument("--numbers", default="bf16", help="how they travel: bf16, int8 or f32")
    link.add_argument("--server", help="ws://host:port of one that runs; default: our own")
    add_token(link, "what it wants to be told")
    link.add_argument("--server-threads", type=int, default=1, help="CPU threads of our own server")
    alone = parser.add_argument_group("a client alone", "--out FILE.json")
    alone.add_argument(
        "--offline", action="store_true", help="what drafters write once the link is cut for ever"
    )
    alone.add_argument("--cuts", default="0,10,25,50,75", help="after these per cent of the answer")


def chosen(options: argparse.Namespace) -> Callable[[argparse.Namespace], None] | None:
    """What to do in place of the usual benchmark, if anything. UserError for two things at once."""
    modes = [mode for mode in _MODES if getattr(options, mode)]
    if len(modes) > 1:
        raise UserError(f"Choose one of --{' and --'.join(modes)}: each is a run of its own.")
    for name in ("repeat", "threads", "limit", "server_threads"):
        value = getattr(options, name)
        if modes and value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be a whole number, at least 1.")
    return import_module(f"moa_core.bench.{_MODES[modes[0]]}").run if modes else None
