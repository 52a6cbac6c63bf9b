"""An export for `generate` of transformers: a drafter's weights, and a file that imports ours."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file

from moa_core.errors import UserError, first_line
from moa_core.export.card import DISTRIBUTION, card, notes_beside
from moa_core.export.source import Source
from moa_core.loading.drafter_files import drafter_config

CODE = {
    "custom_generate/generate.py": '''"""Speculative decoding with its drafter: see README.md."""

from moa_core.export.generate import generate

__all__ = ["generate"]
''',
    "custom_generate/requirements.txt": f"{DISTRIBUTION}\n",
}


def export(source: Source, folder: Path) -> None:
    """Write a drafter with its card."""
    check_empty(folder)
    config = drafter_config(source.drafter, source.target, {})
    kept = {key: one for key, one in source.ours.items() if key not in ("method", "tli", "target")}
    config["drafter"] |= kept
    config["drafter"]["target"]["name"] = source.verifier
    texts = {"README.md": card(source), **CODE}
    texts["config.json"] = json.dumps(config, indent=2) + "\n"
    contents = {path: text.encode() for path, text in texts.items()} | notes_beside(source)
    try:
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        save_file(source.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be written to: {first_line(error)}") from error


def check_empty(folder: Path) -> None:
    """UserError if something is there already."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder to export to.")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: name another folder.")
