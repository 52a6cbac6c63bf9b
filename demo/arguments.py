"""The options of the page."""

import argparse
from pathlib import Path

from demo.engine import Engine
from moa_core.arguments import SPEC, Help, add_target, chosen_preset, loading
from moa_core.loading.catalog import locate, named
from moa_core.loading.load import config_of, pick_device, pick_dtype


def options(about: str | None, program: str | None) -> argparse.ArgumentParser:
    """The page's option parser. program: its name in messages; None: the running program's."""
    parser = argparse.ArgumentParser(program, description=about, formatter_class=Help)
    parser.add_argument("--host", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, help="default: the first free one from 7860")
    parser.add_argument(
        "--password",
        help="password for visitors; MOA_PASSWORD is safer: others can see a command line",
    )
    parser.add_argument(
        "--open-to-all", action="store_true", help="let other machines in without a password"
    )
    add_target(parser)
    parser.add_argument(
        "--drafter", action="append", default=[],
        help=f"{SPEC}; repeat it for a MoA drafter of each N",
    )  # fmt: skip
    parser.add_argument("--baseline", help=f"an EAGLE head to compare with: {SPEC}")
    return parser


def engine_of(options: argparse.Namespace) -> Engine:
    """An engine for the chosen models; none is loaded yet. UserError for a choice that cannot
    work."""
    preset = chosen_preset(options)
    pick_dtype(options.dtype, pick_device(options.device))
    if options.target is not None and isinstance(place := locate(options.target), Path):
        config_of(place)
    specs = [*options.drafter, *([options.baseline] if options.baseline else [])]
    drafters = named(options.target or "", specs, preset).drafters
    names = sorted({info.name for info in drafters.values()})
    return Engine(options.target, drafters, loading(options, names))
