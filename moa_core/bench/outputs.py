"""The files and the table that a finished benchmark leaves."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moa_core.bench.results import Record, acceptance_by_position, by_kind, rounded, tree_text

FORMULAS = "=+-@\t\r"  # what they begin with


def write_all(results: dict[str, Any], folder: Path) -> None:
    """Write results.json and acceptance.csv into a folder.

    summary.json is results.json without its runs: small enough to keep and to compare.
    """
    results = rounded(results)
    write_json(results, folder / "results.json")
    write_json({**results, "runs": []}, folder / "summary.json")
    write_acceptance(results["runs"], folder / "acceptance.csv")


def write_json(results: dict[str, Any], path: Path) -> None:
    """One JSON object, every run on a line of its own."""
    figures = {key: value for key, value in results.items() if key != "runs"}
    head = json.dumps({**figures, "runs": []}, indent=1, ensure_ascii=False)
    lines = [json.dumps(run, separators=(",", ":")) for run in results["runs"]]
    runs = "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"
    before, _, after = head.rpartition("[]")
    path.write_text(before + runs + after + "\n", encoding="utf-8")


def write_acceptance(runs: Sequence[Record], path: Path) -> None:
    """Acceptance in the columns of vLLM's speculators, one row per method and kind of prompt.

    Theirs are subset, num_drafts (cycles), num_draft_tokens, num_accepted_tokens,
    acceptance_length (bonus included) and acceptance_at_pos_0 ff.; `method` goes before them. In a
    tree more is drafted than can be accepted. Methods without drafts or known cycles are not there.
    """
    rows = []
    for name in dict.fromkeys(record["method"] for record in runs):
        mine = [record for record in runs if record["method"] == name]
        if any(any(record.get("cycles", {}).get("drafted", ())) for record in mine):
            parts = by_kind(mine, _accepted).items()
            rows += [{"method": name, "subset": kind, **row} for kind, row in parts]
    columns = max((list(row) for row in rows), key=len, default=["method", "subset"])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval=0.0)
        writer.writeheader()
        for row in rounded(rows):
            writer.writerow({name: no_formula(value) for name, value in row.items()})


def no_formula(value: Any) -> Any:
    """A cell of a CSV file: text that a spreadsheet would take for a formula gets an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULAS and value else value


def _accepted(runs: Sequence[Record]) -> dict[str, float]:
    cycles = sum(len(record["cycles"]["gained"]) for record in runs)
    accepted = sum(gained - 1 for record in runs for gained in record["cycles"]["gained"])
    rates = acceptance_by_position(runs) or []
    return {
        "num_drafts": cycles,
        "num_draft_tokens": sum(sum(record["cycles"]["drafted"]) for record in runs),
        "num_accepted_tokens": accepted,
        "acceptance_length": 1 + accepted / cycles if cycles else 0.0,
        **{f"acceptance_at_pos_{place}": rate for place, rate in enumerate(rates)},
    }


def table(methods: dict[str, dict[str, Any]]) -> str:
    """The main figures as aligned text, a row per method.

    Speed of whole runs, the lowest and highest repeat, times plain decoding's; speed of decoding
    alone; tau over all prompts and by kind.
    """
    kinds = list(dict.fromkeys(kind for found in methods.values() for kind in found["kinds"]))
    head = ["method", "tree", "tokens/s", "low-high", "speed-up", "decoding/s", "tau", *kinds]
    rows = [head] + [_row(name, found, kinds) for name, found in methods.items()]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(name: str, found: dict[str, Any], kinds: Sequence[str]) -> list[str]:
    spread = found["tokens_per_second_spread"]
    parts = [found, *(found["kinds"].get(kind, {}) for kind in kinds)]
    return [
        name,
        tree_text(found.get("tree"), found.get("drafts_per_cycle")) or "-",
        _text(found["tokens_per_second"], 1),
        "-".join(_text(end, 1) for end in spread) if spread else "-",
        _text(found["speedup"], 2),
        _text(found["decode_tokens_per_second"], 1),
        *(_text(part.get("tau"), 2) for part in parts),
    ]


def _text(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
