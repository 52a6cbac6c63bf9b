"""Recorded benchmarks, ours and other people's: read from their files and put into words."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from moa_core.assets import ASSETS
from moa_core.bench.values import above_zero, kinds, mapping, number, numbers
from moa_core.errors import UserError
from moa_core.loading.untrusted import plain

FOLDER = ASSETS / "results"
LARGEST = 64 * 2**20  # bytes of a results.json; ours with all its runs have under 5 MB
MOST = 64  # methods, and kinds of prompt: more cannot be read in a chart
NOT_ONE = (
    "{name} is not a benchmark's results ({why}). Open summary.json or results.json from the "
    "folder that was given to --out."
)
USUAL = {  # what `bench` does when its command does not say
    "suite": "bundled", "limit": None, "max_new_tokens": 128, "temperature": 0.0, "seed": 0,
    "tree": "auto", "grid": None,
}  # fmt: skip


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
        return kinds(self.results)

    @property
    def machine(self) -> str:
        """Device, processor and threads, in a few words."""
        found = mapping(self.results.get("machine"))
        cuda = found.get("device") == "cuda"
        parts = [
            str(found.get("device") or "").upper(),
            str((cuda and found.get("gpu")) or found.get("processor") or ""),
        ]
        threads, cores = number(found.get("threads")), number(found.get("cores"))
        if threads and not cuda:
            parts.append(f"{threads:g} thread{'s' if threads > 1 else ''}")
            parts[-1] += f" of {cores:g} cores" if cores else ""
        return ", ".join(filter(None, parts)) or "machine not recorded"

    @property
    def precision(self) -> str:
        """The target's number format."""
        return str(mapping(self.results.get("target")).get("dtype") or "precision not recorded")

    @property
    def target(self) -> str:
        """The target's name."""
        return str(mapping(self.results.get("target")).get("name") or "target not recorded")

    @property
    def date(self) -> str:
        """The day it was recorded, as the file says it: 2026-11-21."""
        return str(self.results.get("date") or "").partition("T")[0] or "date not recorded"

    @property
    def commit(self) -> str:
        """The commit of the program that measured."""
        return str(self.results.get("commit") or "not recorded")

    @property
    def given(self) -> str:
        """The command that measured this, as the file has it; empty in older files."""
        found = self.results.get("command")
        return found.strip() if isinstance(found, str) else ""

    @property
    def command(self) -> str:
        """The command that measures this again, put together where the file has none.

        A method that was a folder is there by the folder's name.
        """
        return self.given or self._rebuilt()

    def _rebuilt(self) -> str:
        settings = mapping(self.results.get("settings"))
        said = {**settings, "suite": self.results.get("suite", USUAL["suite"])}
        words = ["--methods", ",".join(self.methods), "--repeat", str(settings.get("repeat", 3))]
        for name, usual in USUAL.items():
            if said.get(name, usual) != usual:
                words += [f"--{name.replace('_', '-')}", str(said[name])]
        words += ["--ignore-eos"] if settings.get("ignore_eos") else []
        words += ["--target", self.target, "--dtype", self.precision]
        machine = mapping(self.results.get("machine"))
        for name in ("device", "threads"):
            words += [f"--{name}", str(machine[name])] if machine.get(name) else []
        return f"python -m moa_core bench {shlex.join(words)} --out FOLDER"

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
        results = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise UserError(NOT_ONE.format(name=name, why="it is no JSON text")) from None
    why = _trouble(results)
    if why:
        raise UserError(NOT_ONE.format(name=name, why=why))
    try:
        kept: dict[str, Any] = plain({**results, "runs": []})
    except ValueError as error:
        raise UserError(NOT_ONE.format(name=name, why=f"it is {error}")) from None
    return _both_speeds(kept)


def _both_speeds(results: dict[str, Any]) -> dict[str, Any]:
    """Results with both speeds, whichever version of the program wrote them.

    An older file has no decode_tokens_per_second: its tokens_per_second is what has that name now.
    The whole run's is then of the mean pass, by the seconds recorded, so that it has no spread.
    """
    methods = {name: mapping(figures) for name, figures in results["methods"].items()}
    if any("decode_tokens_per_second" in figures for figures in methods.values()):
        return results
    found = {name: _renamed(figures) for name, figures in methods.items()}
    for figures in found.values():
        figures["tokens_per_second"] = _whole_run(figures)
    plain = found.get("vanilla", {}).get("tokens_per_second")
    for figures in found.values():
        own = figures["tokens_per_second"]
        figures["speedup"] = own / plain if own and plain else None
    return {**results, "methods": found}


def _renamed(figures: dict[str, Any]) -> dict[str, Any]:
    """The same with the old names of decoding's speed replaced, those of each kind too."""
    old = ("tokens_per_second", "tokens_per_second_spread")
    made = {f"decode_{key}" if key in old else key: value for key, value in figures.items()}
    if isinstance(made.get("kinds"), dict):
        made["kinds"] = {kind: _renamed(mapping(part)) for kind, part in made["kinds"].items()}
    return made


def _whole_run(figures: dict[str, Any]) -> float | None:
    """New tokens per second of the mean pass, prefill included; None where that is not known."""
    tokens = above_zero(figures.get("new_tokens"))
    seconds = mapping(figures.get("seconds"))
    spent = [number(value) for value in seconds.values()]
    if tokens is None or "prefill" not in seconds or None in spent:
        return None
    total = sum(value for value in spent if value is not None)
    return tokens / total if total > 0 else None


def _trouble(results: Any) -> str:
    """What keeps an object from being a benchmark's results; empty if nothing does."""
    if not isinstance(results, dict) or not isinstance(results.get("methods"), dict):
        return "it has no methods"
    if results.get("version") != 1:
        return f"its version is {str(results.get('version'))[:20]!r}; this program reads 1"
    found = [mapping(figures) for figures in mapping(results["methods"]).values()]
    if not any(above_zero(figures.get("tau")) for figures in found):
        return "no method in it has a τ"
    if max(len(found), len(kinds(results))) > MOST:
        return f"it has more than {MOST} methods or kinds of prompt"
    return ""


@dataclass(frozen=True)
class Ratio:
    """Ours over theirs, and whether the two spreads overlap; None where there is no spread."""

    value: float
    overlap: bool | None = None


def ratio(ours: dict[str, Any], theirs: dict[str, Any], key: str) -> Ratio | None:
    """The ratio of a figure of two methods; None where either lacks it."""
    top, bottom = above_zero(ours.get(key)), above_zero(theirs.get(key))
    if not top or not bottom:
        return None
    mine, other = (numbers(side.get(f"{key}_spread"), 2) for side in (ours, theirs))
    if not (mine and other and mine[0] < mine[1] and other[0] < other[1]):
        return Ratio(top / bottom, None)
    return Ratio(top / bottom, mine[0] <= other[1] and other[0] <= mine[1])
