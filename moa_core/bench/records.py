"""Recorded results, ours and other people's: read from their files and put into words.

A benchmark leaves a folder with summary.json. --link and --offline leave a FILE.json each: version,
kind, command, commit, date, machine, target, settings, and `rows`, with --link also `links`.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from moa_core.assets import ASSETS
from moa_core.bench.results import rounded
from moa_core.decoding.trace import plain
from moa_core.errors import UserError
from moa_core.loading.untrusted import read_json

FOLDER = ASSETS / "results"
LINK_FOLDER = FOLDER / "link"
LARGEST = 64 * 2**20  # bytes of a results.json; ours with all its runs have under 5 MB
MOST = 64  # methods, and kinds of prompt: more cannot be read in a chart
PHASES = ("draft", "verify", "other")
NOT_ONE = (
    "{name} is not a benchmark's results ({why}). Open summary.json or results.json from the "
    "folder that was given to --out."
)
Row = dict[str, Any]


# ---- values: any of them may be missing or odd; then it is left out ----


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def above_zero(value: Any) -> float | None:
    """A number where 0 can only mean that nothing was measured."""
    found = number(value)
    return found if found and found > 0 else None


def numbers(value: Any, count: int) -> list[float] | None:
    """The first `count` numbers of a list; None if one of them is missing."""
    row = [number(item) for item in listed(value)[:count]]
    known = [item for item in row if item is not None]
    return known if len(known) == count else None


def mapping(value: Any) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def phase_times(figures: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a mean cycle by phase; empty where that was not recorded."""
    seconds = mapping(figures.get("seconds"))
    spent = {phase: number(seconds.get(phase)) for phase in PHASES}
    calls, prompts = number(figures.get("target_calls")), number(figures.get("prompts"))
    cycles = (calls or 0) - (prompts or 0)  # a prompt's first call is its prefill
    if not prompts or cycles <= 0 or None in spent.values() or not any(spent.values()):
        return {}
    return {phase: 1000 * (part or 0) / cycles for phase, part in spent.items()}


# ---- benchmarks ----


@dataclass(frozen=True)
class Recording:
    """The results of one `python -m moa_core bench`.

    name     what to call it
    results  summary.json's object; anything in it may be missing or odd
    opened   whether a visitor brought it
    """

    name: str
    results: dict[str, Any]
    opened: bool = False

    @cached_property
    def methods(self) -> dict[str, dict[str, Any]]:
        """Figures by method, in the file's order."""
        found = mapping(self.results.get("methods"))
        return {name: mapping(figures) for name, figures in found.items()}

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of prompt, in order of first appearance."""
        kinds = (mapping(found.get("kinds")) for found in self.methods.values())
        return list(dict.fromkeys(kind for of_method in kinds for kind in of_method))

    @property
    def machine(self) -> str:
        """Device, processor and threads, in a few words."""
        found = mapping(self.results.get("machine"))
        cuda = found.get("device") == "cuda"
        processor = (cuda and found.get("gpu")) or found.get("processor")
        parts = [str(found.get("device") or "").upper(), str(processor or "")]
        threads, cores = number(found.get("threads")), number(found.get("cores"))
        if threads and not cuda:
            of = f" of {cores:g} cores" if cores else ""
            parts.append(f"{threads:g} thread{'s' if threads > 1 else ''}{of}")
        return ", ".join(filter(None, parts)) or "machine not recorded"

    @property
    def precision(self) -> str:
        return self._told("dtype", mapping(self.results.get("target"))) or "precision not recorded"

    @property
    def target(self) -> str:
        return self._told("name", mapping(self.results.get("target"))) or "target not recorded"

    @property
    def date(self) -> str:
        return self._told("date").partition("T")[0] or "date not recorded"

    @property
    def commit(self) -> str:
        return self._told("commit") or "not recorded"

    @property
    def command(self) -> str:
        """The command that measured this, as the file has it."""
        found = self.results.get("command")
        return found.strip() if isinstance(found, str) else "not recorded"

    def _told(self, key: str, where: dict[str, Any] | None = None) -> str:
        return str((self.results if where is None else where).get(key) or "")

    def figures(self, method: str, kind: str | None = None) -> dict[str, Any]:
        """A method's figures, over all prompts or over those of one kind; empty if unknown."""
        whole = self.methods.get(method, {})
        return whole if kind is None else mapping(mapping(whole.get("kinds")).get(kind))


def recordings(folder: Path = FOLDER) -> list[Recording]:
    """The recordings kept in a folder, those with the most methods first.

    A folder each, with a summary.json; its name is the recording's: same-tree -> Same tree.
    """
    found = [
        Recording(path.parent.name.replace("-", " ").capitalize(), read_results(path))
        for path in sorted(folder.glob("*/summary.json"))
    ]
    return sorted(found, key=lambda one: -len(one.methods))


def read_results(path: Path, name: str = "") -> dict[str, Any]:
    """A summary.json or results.json, without its single runs.

    name  what to call the file in what goes wrong. UserError if it holds no benchmark's results.
    """
    name = name or path.name
    if path.is_file() and path.stat().st_size > LARGEST:
        raise UserError(
            f"{name} is larger than {LARGEST // 2**20} MB: open summary.json, which has the same "
            "figures without the single runs."
        )
    try:
        results = read_json(path, LARGEST)
    except (OSError, ValueError):
        raise UserError(NOT_ONE.format(name=name, why="it is no JSON text")) from None
    if why := _trouble(results):
        raise UserError(NOT_ONE.format(name=name, why=why))
    try:
        kept: dict[str, Any] = plain({**results, "runs": []})
    except ValueError as error:
        raise UserError(NOT_ONE.format(name=name, why=f"it is {error}")) from None
    return kept


def _trouble(results: Any) -> str:
    """What keeps an object from being a benchmark's results; empty if nothing does."""
    if not isinstance(results, dict) or not isinstance(results.get("methods"), dict):
        return "it has no methods"
    if results.get("version") != 1:
        return f"its version is {str(results.get('version'))[:20]!r}; this program reads 1"
    recording = Recording("", results)
    found = recording.methods.values()
    if not any(above_zero(figures.get("tau")) for figures in found):
        return "no method in it has a τ"
    if max(len(found), len(recording.kinds)) > MOST:
        return f"it has more than {MOST} methods or kinds of prompt"
    if any("tokens_per_second" in of for of in found) and not any(
        "decode_tokens_per_second" in of for of in found
    ):
        return "its speeds are of an older program, which left the prompt out of them"
    return ""


# ---- links ----


def head(kind: str, given: Sequence[str], commits: Sequence[str], **more: Any) -> Row:
    """How a recording begins. given: the command's own words."""
    from moa_core.bench.machine import versions

    return {
        "version": 1,
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


def read(path: Path) -> Row:
    """A recording of --link or --offline. UserError if it is none."""
    try:
        found: Row = read_json(path)
    except (OSError, ValueError):
        raise UserError(f"{path.name} cannot be read as a recording: it is no JSON text.") from None
    known = isinstance(found, dict) and found.get("kind") in ("link", "offline")
    rows = found.get("rows") if known and found.get("version") == 1 else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{path.name} is no recording of bench --link or --offline.")
    return found


def recorded(folder: Path = LINK_FOLDER) -> dict[str, Row]:
    """The recordings of a folder by name: presets.json -> "presets"."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.json"))}


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def check_out(path: Path | None) -> Path:
    """UserError unless a recording can be written there."""
    if path is None or path.suffix != ".json" or path.is_dir():
        raise UserError("Say which file the figures go to: --out FILE.json.")
    return path.expanduser()


# ---- the command, as a recording keeps it ----


def command_line(arguments: Sequence[str]) -> str:
    """`python -m moa_core` with these arguments, to be given again.

    A path below the working folder is written from there on, any other by its last part.
    """
    words = ["python", "-m", "moa_core"]
    option = ""
    for argument in arguments:
        name, mark, value = argument.partition("=")
        if not argument.startswith("-"):
            words.append(_public(option, argument))
        elif mark:
            words.append(f"{name}={_public(name, value)}")
        else:
            option = argument
            words.append(argument)
    return shlex.join(words)


def without_folders(value: str) -> str:
    """A path below the working folder from there on, any other's last part; else the value."""
    if not value.startswith("~") and not {"/", "\\"} & set(value):
        return value
    path = Path(os.path.abspath(os.path.expanduser(value)))
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name


def _public(option: str, value: str) -> str:
    several = len(option) > 2 and "--methods".startswith(option)  # argparse takes it cut short
    return ",".join(map(without_folders, value.split(","))) if several else without_folders(value)
