"""One export into one folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file

from moa_core.errors import UserError, first_line
from moa_core.export.authors import Files, authors_files
from moa_core.export.card import card, notes_beside
from moa_core.export.hub import FILES, custom_generate_files
from moa_core.export.source import Source

FORMATS: dict[str, Callable[[Source], Files]] = {
    "authors": authors_files,
    "custom-generate": custom_generate_files,
}


def export(
    source: Source, kind: str, folder: Path, *, overwrite: bool = False, licence: str | None = None
) -> None:
    """Write a drafter in one of FORMATS, with its card. Nothing is written if it cannot be.

    licence  of the weights, where the config does not say it
    """
    check_empty(folder, overwrite)
    config, tensors = FORMATS[kind](source)
    texts = {"README.md": card(source, kind, licence)}
    texts |= FILES if kind == "custom-generate" else {}
    texts["config.json"] = json.dumps(config, indent=2) + "\n"
    contents = {path: text.encode() for path, text in texts.items()} | notes_beside(source)
    try:
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be written to: {first_line(error)}") from error


def check_empty(folder: Path, overwrite: bool) -> None:
    """UserError if something is there that nobody allowed to be replaced."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder to export to.")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: name another folder, or add --overwrite.")
