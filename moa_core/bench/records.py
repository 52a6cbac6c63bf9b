"""Recorded results: read from their files and described.

A benchmark leaves a folder with summary.json. --link and --offline leave a FILE.json each: version,
kind, command, commit, date, machine, target, settings, and `rows`, with --link also `links`.
"""

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from moa_core.arguments import check_folder
from moa_core.assets import ASSETS
from moa_core.errors import UserError
from moa_core.untrusted import read_json

FOLDER = ASSETS / "results"
LINK_FOLDER = FOLDER / "link"
ALL = "all"  # kinds together, in rows by kind
PHASES = ("draft", "verify", "other")
Row = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """The results of one `python -m moa_core bench`.

    name     its title
    results  summary.json's object
    """

    name: str
    results: dict[str, Any]

    @property
    def methods(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.results["methods"]
        return found

    @cached_property
    def kinds(self) -> list[str]:
        kinds = (found.get("kinds", {}) for found in self.methods.values())
        return list(dict.fromkeys(kind for of_method in kinds for kind in of_method))

    @property
    def machine(self) -> str:
        found = self.results["machine"]
        if found["device"] == "cuda":
            return f"CUDA, {found['gpu']}"
        threads, cores = found["threads"], found.get("cores")
        of = f" of {cores} cores" if cores else ""
        return f"CPU, {found['processor']}, {threads} thread{'s' if threads > 1 else ''}{of}"

    @property
    def precision(self) -> str:
        return str(self.results["target"]["dtype"])

    @property
    def target(self) -> str:
        return str(self.results["target"]["name"])

    def figures(self, method: str, kind: str | None = None) -> dict[str, Any]:
        """A method's figures over all prompts or one kind; empty if unknown."""
        whole = self.methods.get(method, {})
        found: dict[str, Any] = whole if kind is None else whole.get("kinds", {}).get(kind, {})
        return found


def recordings() -> list[Recording]:
    """The recordings kept here, those with the most methods first.

    A folder each, with a summary.json; its name is the recording's: same-tree -> Same tree.
    UserError for a damaged file.
    """
    found = [
        Recording(path.parent.name.replace("-", " ").capitalize(), read(path))
        for path in sorted(FOLDER.glob("*/summary.json"))
    ]
    return sorted(found, key=lambda one: -len(one.methods))


def phase_times(figures: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a mean cycle by phase; empty where that was not recorded."""
    seconds = figures.get("seconds", {})
    cycles = figures.get("target_calls", 0) - figures["prompts"]  # the first call is the prefill's
    if cycles <= 0 or not all(phase in seconds for phase in PHASES):
        return {}
    return {phase: 1000 * seconds[phase] / cycles for phase in PHASES}


def read(path: Path) -> Row:
    """The object in a recording's file. UserError if it is damaged."""
    try:
        found: Row = read_json(path)
    except (OSError, ValueError):
        raise UserError(f"{path.name} cannot be read as a recording: it is no JSON text.") from None
    return found


def head(kind: str, given: Sequence[str], **more: Any) -> Row:
    """The header of a recording. given: the command's arguments."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"version": 1, "kind": kind, "command": command_line(given), "date": date, **more}


def write(recording: Row, path: Path) -> None:
    """One JSON object, with each row of a list on its own line."""
    parts = []
    rounded = json.loads(json.dumps(recording), parse_float=lambda text: round(float(text), 6))
    for key, value in rounded.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in value]
            text = "[\n" + ",\n".join(lines) + "\n]"
        else:
            text = json.dumps(value, indent=1, ensure_ascii=False)
        parts.append(f"{json.dumps(key)}: {text}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def recorded(folder: Path = LINK_FOLDER) -> dict[str, Row]:
    """The recordings of a folder by name: presets.json -> "presets"."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.json"))}


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def check_out(path: Path | None) -> Path:
    """UserError unless a recording can be written there."""
    if path is None or path.suffix != ".json" or os.path.isdir(path):
        raise UserError("Say which file the figures go to: --out FILE.json.")
    check_folder(path.parent)
    return path


def command_line(arguments: Sequence[str]) -> str:
    """The command `python -m moa_core` with these arguments.

    Paths below the working folder become relative; others are cut to their last part.
    """
    public = (re.sub(r"[^,=]*[/\\~][^,=]*", _without_folders, one) for one in arguments)
    return shlex.join(["python", "-m", "moa_core", *public])


def _without_folders(found: re.Match[str]) -> str:
    path = Path(os.path.abspath(os.path.expanduser(found[0])))
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
