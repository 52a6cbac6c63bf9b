"""The command that was given, as results keep it: nothing of this machine's folders."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path


def command_line(arguments: Sequence[str]) -> str:
    """`python -m moa_core` with these arguments, to be given again, but for a server's token.

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
    """argparse takes it cut short as well."""
    kept, skip = [], False
    for word in arguments:
        name, mark, _ = word.partition("=")
        secret = name in ("--to", "--tok", "--toke", "--token")
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
    """A value without folders; of --methods, which argparse also takes cut short, each one."""
    several = len(option) > 2 and "--methods".startswith(option)
    return ",".join(map(without_folders, value.split(","))) if several else without_folders(value)
