"""What `bench` takes to profile. Imports nothing heavy."""

from __future__ import annotations

import argparse
from pathlib import Path

from moa_core.errors import UserError

_WITH = ("json", "markdown", "contexts", "shape", "layers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """They share --methods, --suite, --limit, --repeat, --max-new-tokens, --tree, --dtype,
    --device and --threads with the usual benchmark."""
    group = parser.add_argument_group(
        "where the time goes",
        "one cycle by its pieces, next to the floor that memory and arithmetic set; --tree best "
        "takes each drafter's own tree, --limit is 1 if not given",
    )
    group.add_argument("--profile", action="store_true", help="instead of the usual benchmark")
    group.add_argument("--json", type=Path, metavar="FILE", help="keep the profile")
    group.add_argument("--markdown", type=Path, metavar="FILE", help="write its tables for docs")
    group.add_argument(
        "--contexts", help="instead: the time of a cycle after so many tokens, 256,1024,4096,8192"
    )
    group.add_argument(
        "--shape", help="random weights of a shape: llama3-8b, bundle, or a model's folder"
    )
    group.add_argument("--layers", type=int, help="of --shape: so many, to fit a small machine")


def wanted(options: argparse.Namespace) -> bool:
    """Whether a profile is asked for. UserError for options that go with one, without it."""
    for name in _WITH:
        if getattr(options, name) is not None and not options.profile:
            raise UserError(f"--{name} goes with --profile.")
    return bool(options.profile)
