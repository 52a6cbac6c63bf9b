"""The options of --link and --offline, and the command's words as results keep them."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from moa_core.arguments import add_token
from moa_core.errors import UserError

MODES = ("link", "offline")  # an option, and the module whose `run` does what it asks for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two modes, each of which writes --out FILE.json. They share the options of the benchmark:
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
    """What runs in place of the usual benchmark, if anything. UserError for two modes at once."""
    modes = [mode for mode in MODES if getattr(options, mode)]
    if not modes:
        return None
    if len(modes) > 1:
        raise UserError(f"Choose one of --{' and --'.join(modes)}: each is a run of its own.")
    for name in ("repeat", "threads", "limit", "server_threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be a whole number, at least 1.")
    run: Callable[[argparse.Namespace], None] = import_module(f"moa_core.bench.{modes[0]}").run
    return run


def command_line(arguments: Sequence[str]) -> str:
    """`python -m moa_core` with these arguments, to be given again, without a server's token.

    A path below the working folder is written from there on, any other by its last part.
    """
    words = ["python", "-m", "moa_core"]
    option = ""
    for argument in _without_token(arguments):
        name, mark, value = argument.partition("=")
        if not argument.startswith("-"):
            words.append(_public(option, argument))
        elif mark:
            words.append(f"{name}={_public(name, value)}")
        else:
            option = argument
            words.append(argument)
    return shlex.join(words)


def _without_token(arguments: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for word in arguments:
        name, mark, _ = word.partition("=")
        secret = name in ("--to", "--tok", "--toke", "--token")  # argparse takes it cut short
        if not skip and not secret:
            kept.append(word)
        skip = secret and not mark
    return kept


def without_folders(value: str) -> str:
    """A path below the working folder from there on, any other's last part; else the value."""
    if not value.startswith("~") and not {"/", "\\"} & set(value):
        return value
    path = Path(os.path.abspath(os.path.expanduser(value)))
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name


def _public(option: str, value: str) -> str:
    several = len(option) > 2 and "--methods".startswith(option)  # argparse takes it cut short
    return ",".join(map(without_folders, value.split(","))) if several else without_folders(value)
