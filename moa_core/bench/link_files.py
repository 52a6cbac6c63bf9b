"""Recordings of what a link costs: files that commands write, and whoever shows them reads.

Each is one JSON object: version, kind, command, commit, date, machine, target, settings, and

link      `links` {label: {spec, source}}; `rows`, one per method and link (see link_rows)
offline   `rows` per method, cut and kind (see offline_rows)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moa_core.assets import ASSETS
from moa_core.bench.command_line import command_line
from moa_core.bench.results import rounded
from moa_core.errors import UserError

VERSION = 1
KINDS = ("link", "offline")
FOLDER = ASSETS / "results" / "link"
LARGEST = 16 * 2**20  # bytes; ours have under 0.1 MB
Row = dict[str, Any]


def head(kind: str, given: Sequence[str], commits: Sequence[str], **more: Any) -> Row:
    """How a recording begins. given: the command's own words; a token among them is left out."""
    from moa_core.bench.machine import versions

    return {
        "version": VERSION,
        "kind": kind,
        "command": command_line(given),
        "commit": ", then ".join(commits) or None,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        **more,
    }


def write(recording: Row, path: Path) -> None:
    """One JSON object, every row of a list on a line of its own."""
    parts = []
    for key, value in rounded(recording, 4).items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in value]
            text = "[\n" + ",\n".join(lines) + "\n]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(key)}: {text}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def read(path: Path, kind: str | None = None) -> Row:
    """A recording. kind: the one it must be of. UserError if it is none."""
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path.name} is larger than {LARGEST // 2**20} MB: no recording is.")
        found: Row = json.loads(path.read_text(encoding="utf-8"))
    except UserError:
        raise
    except (OSError, ValueError, RecursionError):
        raise UserError(f"{path.name} cannot be read as a recording: it is no JSON text.") from None
    why = _trouble(found, kind)
    if why:
        raise UserError(f"{path.name} is no recording of this program: {why}.")
    return found


def _trouble(found: Any, kind: str | None) -> str:
    """What keeps an object from being a recording; empty if nothing does."""
    if not isinstance(found, dict) or found.get("kind") not in KINDS:
        return f"its kind is none of {', '.join(KINDS)}"
    if found.get("version") != VERSION:
        return f"its version is {str(found.get('version'))[:20]!r}, not {VERSION}"
    if kind and found["kind"] != kind:
        return f"it is of kind {found['kind']}, where {kind} was due"
    rows = found.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return "it has no rows"
    return ""


def recorded(folder: Path = FOLDER) -> dict[str, Row]:
    """The recordings of a folder by name: presets.json -> "presets"."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.json"))}


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def runs_folder(path: Path) -> Path:
    """Where the single runs of a recording are kept until it is whole: FILE.json -> FILE.runs."""
    return path.with_suffix(".runs")


def check_out(path: Path | None) -> Path:
    """UserError unless a recording can be written there."""
    if path is None or path.suffix != ".json" or path.is_dir():
        raise UserError("Say which file the figures go to: --out FILE.json.")
    return path.expanduser()
