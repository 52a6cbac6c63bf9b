"""One export into one folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file

from moa_core.errors import UserError, first_line
from moa_core.export.authors import Files, authors_files
from moa_core.export.card import card, licence_text, notes_beside, plain
from moa_core.export.hub import FOLDER, code, custom_generate_files
from moa_core.export.source import Source
from moa_core.export.speculators import acceptance_rows, speculators_files, write_acceptance
from moa_core.export.vllm_moa import vllm_moa_files

FORMATS: dict[str, Callable[[Source], Files]] = {
    "authors": authors_files,
    "vllm-moa": vllm_moa_files,
    "custom-generate": custom_generate_files,
    "speculators": speculators_files,
}


def export(
    source: Source,
    kind: str,
    folder: Path,
    *,
    overwrite: bool = False,
    licence: str | None = None,
    results: Path | None = None,
    method: str | None = None,
) -> None:
    """Write a drafter in one of FORMATS, with its card. Nothing is written if it cannot be.

    licence  of the weights, where the config does not say it
    results  a folder of `bench --out`, whose acceptance goes along; method: of its rows, default
             the drafter's name
    """
    check_empty(folder, overwrite)
    config, tensors = FORMATS[kind](source)
    rows = acceptance_rows(results, method or source.name) if results else []
    texts = {path: text.encode() for path, text in _texts(source, kind, licence, rows).items()}
    texts["config.json"] = (json.dumps(config, indent=2) + "\n").encode()
    try:
        for path, content in (texts | notes_beside(source)).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        if rows:
            write_acceptance(rows, folder / "acceptance.csv")
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be written to: {first_line(error)}") from error


def check_empty(folder: Path, overwrite: bool) -> None:
    """UserError if something is there that nobody allowed to be replaced."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder to export to.")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: name another folder, or add --overwrite.")


def _texts(
    source: Source, kind: str, licence: str | None, rows: list[dict[str, str]]
) -> dict[str, str]:
    """Everything but config and tensors, by path in the folder."""
    texts = {"README.md": card(source, kind, licence, _measured(rows))}
    if kind == "custom-generate":
        texts |= {f"{FOLDER}/{name}": text for name, text in code().items()}
        found = licence_text()
        texts |= {f"{FOLDER}/LICENSE": found} if found else {}
    return texts


def _measured(rows: list[dict[str, str]]) -> list[str]:
    """Acceptance of a benchmark, in the card."""
    if not rows:
        return []
    lines = ["| prompts | cycles | acceptance length τ |", "|---|---|---|"]
    lines += [
        f"| {plain(row['subset'])} | {row['num_drafts']} | {float(row['acceptance_length']):.2f} |"
        for row in rows
    ]
    return ["\n".join(lines), "By position: `acceptance.csv`."]
