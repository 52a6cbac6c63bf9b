"""A profile as text and as Markdown, from the report that is kept as JSON. Knows no models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from moa_core.bench import targets
from moa_core.bench.profile_spans import PYTHON, SYNC
from moa_core.bench.targets import Split

LEAST = 0.001  # milliseconds: floors below this are no measure
PHASES = ("draft", "verify", "accept", "cache", "loop")
Report = dict[str, Any]
Cells = Sequence[str]

ABOUT = (
    "Times are of one cycle in milliseconds, means over the middle half of the cycles; the pieces "
    "sum to the whole, timed. Cycle: the same without timers. Floor: what each piece must read, "
    "once, over the measured copy bandwidth, or its operations over the measured rate of a matrix "
    "product, whichever is longer. Gap: time over floor. Calls: operators of torch that are "
    "called, and what so many of the smallest one take. Python: what is in no piece."
)


def shares(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Milliseconds of draft, verify, accept, cache, Python and sync: a cycle's rows, each once."""
    found = dict.fromkeys(("draft", "verify", "accept", "cache", PYTHON, SYNC), 0.0)
    for row in rows:
        phase, piece = row["phase"], row["piece"]
        if phase == "accept":
            found["accept"] += row["ms"]
        elif phase == "cache" or piece == "cache":
            found["cache"] += row["ms"]
        elif piece in (PYTHON, SYNC):
            found[piece] += row["ms"]
        else:
            found[phase] += row["ms"]
    return found


def joined(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their levels added up, phase by phase, the longest piece of a phase first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["phase"], row["piece"])
        into = found.setdefault(key, {"phase": key[0], "piece": key[1]})
        for name in ("ms", "floor_ms", "calls", "operators", "bytes", "ops"):
            into[name] = into.get(name, 0.0) + row[name]
    return sorted(found.values(), key=lambda row: (PHASES.index(row["phase"]), -row["ms"]))


def by_level(rows: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Milliseconds of each piece of the draft at each level: heads, and lines."""
    drafted = [row for row in rows if row["level"] is not None]
    pieces = list(dict.fromkeys(row["piece"] for row in drafted if row["piece"] != PYTHON))
    pieces += [PYTHON] if drafted else []
    lines = []
    for level in sorted({row["level"] for row in drafted}):
        here = {row["piece"]: row["ms"] for row in drafted if row["level"] == level}
        cells = [f"{here.get(piece, 0.0):.3f}" for piece in pieces]
        lines.append([str(level), *cells, f"{sum(here.values()):.3f}"])
    return ["level", *pieces, "in all"], lines


def summary(report: Report) -> tuple[list[str], list[list[str]]]:
    """One line a method: the cycle, its parts with timers on, its floor."""
    lines = []
    for name, one in report["methods"].items():
        parts = shares(one["rows"])
        floor = sum(row["floor_ms"] for row in one["rows"])
        operators = sum(row["operators"] for row in one["rows"])
        numbers = (one["cycle_ms"], sum(parts.values()), *parts.values(), floor)
        lines.append(
            [
                name, one["tree"], f"{one['tau']:.2f}", *(f"{number:.2f}" for number in numbers),
                _ratio(one["cycle_ms"], floor), f"{operators:.0f}",
                f"{operators * report['rates']['operator_us'] / 1e3:.2f}",
            ]
        )  # fmt: skip
    heads = [
        "method", "tree", "τ", "cycle", "timed", "draft", "verify", "accept", "cache", PYTHON, SYNC,
        "floor", "gap", "calls", "calls at least",
    ]  # fmt: skip
    return heads, lines


def steps(report: Report) -> tuple[list[str], list[list[str]]]:
    """Phases in cycles of plain decoding, what is Python in them included; no lines without it."""
    methods = report["methods"]
    plain = sum(row["ms"] for row in methods.get("vanilla", {}).get("rows", ()))
    lines = []
    for name, one in methods.items() if plain else ():
        phases = dict.fromkeys(PHASES, 0.0)
        for row in one["rows"]:
            phases[row["phase"]] += row["ms"] / plain
        rest = phases["accept"] + phases["cache"] + phases["loop"]
        numbers = (phases["draft"], phases["verify"], rest, sum(phases.values()))
        lines.append([name, *(f"{number:.2f}" for number in numbers)])
    return ["in vanilla steps", "draft", "verify", "rest", "cycle"], lines


def aims(report: Report) -> tuple[list[str], list[list[str]]]:
    """What a GPU is to reach, beside what was found; no lines without plain decoding."""
    cycles, floor = {}, 0.0
    for name, one in report["methods"].items():
        draft = sum(row["ms"] for row in one["rows"] if row["phase"] == "draft") / 1e3
        whole = sum(row["ms"] for row in one["rows"]) / 1e3
        cycles[name] = Split(draft, whole - draft)
        if name == "vanilla":  # the step itself without timers
            cycles[name] = Split(0.0, one["cycle_ms"] / 1e3)
            floor = sum(row["floor_ms"] for row in one["rows"]) / 1e3
    return targets.table(cycles, floor)


def pieces(one: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """One line a piece of a method's cycle, and the whole at the end."""
    rows = joined(one["rows"])
    whole: dict[str, Any] = {"phase": "", "piece": "the whole cycle"}
    for name in ("ms", "floor_ms", "calls", "operators", "bytes", "ops"):
        whole[name] = sum(row[name] for row in rows)
    lines = [
        [
            row["phase"], row["piece"], f"{row['ms']:.3f}",
            f"{100 * row['ms'] / whole['ms']:.0f} %", f"{row['floor_ms']:.3f}",
            _ratio(row["ms"], row["floor_ms"]), f"{row['operators']:.0f}",
            f"{row['bytes'] / 1e6:.2f}", f"{row['ops'] / 1e6:.1f}",
        ]
        for row in (*rows, whole)
        if whole["ms"]
    ]  # fmt: skip
    heads = ["phase", "piece", "ms", "share", "floor", "gap", "calls", "MB read", "Mop"]
    return heads, lines


def contexts(report: Report) -> tuple[list[str], list[list[str]]]:
    """One line for each method and context."""
    lines = [
        [
            row["method"], f"{row['context']:,}", f"{row['cycle_ms']:.2f}",
            f"{row['floor_ms']:.2f}",
            f"{row['read_mb']:.1f}", f"{row['gigabytes_per_second']:.1f}",
            _number(row.get("more_ms")), _number(row.get("explained_ms")),
            _ratio(row.get("more_ms"), row.get("explained_ms")),
        ]
        for row in report["contexts"]
    ]  # fmt: skip
    heads = [
        "method", "context", "cycle", "floor", "MB read", "GB/s", "more than the first",
        "explained", "ratio",
    ]  # fmt: skip
    return heads, lines


def machine_line(report: Report) -> str:
    """Where, with what, and what that can do at best."""
    rates, where = report["rates"], report["machine"]
    device = where.get("gpu") or where["processor"]
    threads = f", {where['threads']} threads" if where["device"] == "cpu" else ""
    return (
        f"{report['target']}, {report['dtype']}, {device}{threads}. At best: copies of "
        f"{rates['set_mb']:.0f} MB at {rates['gb_per_second']:.1f} GB/s (beyond the caches "
        f"{rates['memory_gb_per_second']:.1f}), matrix products at {rates['gflops']:,.0f} "
        f"Gop/s, the smallest operator {rates['operator_us']:.2f} µs."
    )


def text(report: Report) -> str:
    """For the terminal."""
    return _written(report, _plain, lambda title: f"\n{title}")


def markdown(report: Report) -> str:
    """For the docs."""
    return _written(report, _piped, lambda title: f"\n**{title}**\n") + "\n"


def _written(
    report: Report, table: Callable[[Cells, Sequence[Cells]], str], title: Callable[[str], str]
) -> str:
    parts = [machine_line(report), "", *([report["note"], ""] if report["note"] else [])]
    if report["methods"]:
        parts += [ABOUT, "", table(*summary(report))]
        for heads, lines in (steps(report), aims(report)):
            parts += ["", table(heads, lines)] if lines else []
    for name, one in report["methods"].items():
        about = (
            f"{name}, tree {one['tree']}, {one['cycles']} cycles at a context of about "
            f"{one['context']:.0f}; {one['cycle_ms']:.2f} ms without timers"
        )
        parts += [title(about), table(*pieces(one))]
        heads, lines = by_level(one["rows"])
        if lines:
            parts += [title(f"{name}, draft by level, ms"), table(heads, lines)]
    if report["contexts"]:
        parts += [title("Cost against context, ms"), table(*contexts(report))]
    return "\n".join(parts)


def _plain(heads: Cells, lines: Sequence[Cells]) -> str:
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    words = [not column[-1][:1].isdigit() for column in zip(*lines, strict=True)]

    def line(cells: Cells) -> str:
        put = (
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(cells, widths, words, strict=True)
        )
        return "  ".join(put).rstrip()

    return "\n".join(map(line, (heads, *lines)))


def _piped(heads: Cells, lines: Sequence[Cells]) -> str:
    rule = "|".join(["", *("---" for _ in heads), ""])
    return "\n".join(
        f"| {' | '.join(map(_cell, cells))} |" if cells else rule for cells in (heads, (), *lines)
    )


def _cell(text: str) -> str:
    """A method's name may be a folder's, and that anything."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _ratio(one: float | None, other: float | None) -> str:
    """No ratio to next to nothing."""
    return f"{one / other:.2f}" if one is not None and other and other > LEAST else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
