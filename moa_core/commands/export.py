"""Write a drafter for another engine: `generate` of transformers."""

from __future__ import annotations

import argparse
from pathlib import Path

from moa_core.arguments import add_pickle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=["custom-generate"], required=True, help="the layout")
    add_pickle(parser)
    parser.add_argument("--drafter", required=True, help="bundled name, folder or Hub id")
    parser.add_argument("--target", help="bundled name, folder or Hub id; default: the bundled one")
    parser.add_argument("--to", type=Path, required=True, help="a new or empty folder")
    parser.add_argument("--target-name", help="the target's Hub id for the card, if it has another")


def run(options: argparse.Namespace) -> None:
    folder = options.to.expanduser()
    from moa_core.export.write import check_empty, export, read_source, target_without_weights
    from moa_core.runtime import quiet

    check_empty(folder)  # before anything is loaded
    quiet()
    target = target_without_weights(options.target)
    source = read_source(options.drafter, target, options.target_name or "")
    export(source, folder)
    if "/" not in source.verifier:
        print("Its card names no base_model: add --target-name with the target's Hub id.")
    print(f"{source.name} ({source.kind}) is in {folder} as {options.format}; read its README.md.")
