"""Write a drafter for another engine: `generate` of transformers."""

from __future__ import annotations

import argparse

from moa_core.arguments import add_pickle, check_new, path
from moa_core.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=["custom-generate"], required=True, help="the layout")
    add_pickle(parser)
    parser.add_argument("--drafter", required=True, help="bundled name, folder or Hub id")
    parser.add_argument("--target", help="bundled name, folder or Hub id; default: smollm2-135m")
    parser.add_argument("--to", type=path, required=True, help="a new or empty folder")
    parser.add_argument("--target-name", help="the target's Hub id for the card, if it has another")


def run(options: argparse.Namespace) -> None:
    check_new(options.to)  # before anything is loaded
    from moa_core.export.write import export, target_without_weights
    from moa_core.loading.catalog import HUB_ID
    from moa_core.runtime import quiet

    if options.target_name and not HUB_ID.fullmatch(options.target_name):
        raise UserError(f"--target-name {options.target_name!r} is no Hub id, as in owner/name.")
    quiet()
    target = target_without_weights(options.target)
    target.name = options.target_name or target.name
    what = export(options.drafter, target, options.to)
    if "/" not in target.name:
        print("Its card names no base_model: add --target-name with the target's Hub id.")
    print(f"{what} is in {options.to} as {options.format}; read its README.md.")
