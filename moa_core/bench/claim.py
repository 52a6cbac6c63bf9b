"""What a recording says of the paper's claim: MoA against EAGLE-2, in τ and in speed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from moa_core.bench.charts import above_zero
from moa_core.bench.recorded import Ratio, Recording, ratio
from moa_core.bench.report import PAPER

OURS, RIVAL = "moa-n1", "eagle2"
SINGLE_PASS = "speeds of a single pass, recorded without a spread, are not compared"


def claim(recording: Recording, paper: Path = PAPER) -> str:
    """One or two plain sentences, unescaped, computed from the file."""
    rival = recording.methods.get(RIVAL, {})
    drafted = [name for name in recording.methods if name.startswith("moa-n")]
    fastest = max(drafted, key=lambda name: _speed(recording, name), default="")
    theirs = papers_ratios(paper)
    speeds = ratio(recording.figures(fastest), rival, "tokens_per_second")
    parts = [
        _part("τ of MoA N=1", ratio(recording.figures(OURS), rival, "tau"), theirs[:1]),
        # A difference between speeds that were passed over once may be the machine's.
        SINGLE_PASS
        if speeds and speeds.overlap is None
        else _part(f"tokens/s of {_named(fastest)}, the fastest MoA here,", speeds, theirs[1:]),
    ]
    said = [part for part in parts if part]
    if not said:
        return "nothing to compare, since MoA and EAGLE-2 are not both in it."
    return f"{'; '.join(said)}."


def _part(subject: str, found: Ratio | None, paper: Sequence[float]) -> str:
    """One ratio beside the paper's."""
    if found is None:
        return ""
    said = f"{subject} is {found.value:.2f} × EAGLE-2’s"
    said += f" (the paper: {paper[0]:.2f} ×)" if paper else ""
    if found.overlap is None:
        return f"{said}, recorded without a spread"
    return f"{said}, {'within' if found.overlap else 'beyond'} the recorded spread"


def _named(name: str) -> str:
    return f"MoA N={name.removeprefix('moa-n')}"


def _speed(recording: Recording, name: str) -> float:
    return above_zero(recording.figures(name).get("tokens_per_second")) or 0.0


@cache
def papers_ratios(path: Path = PAPER) -> tuple[float, ...]:
    """From the authors' table: N = 1 over EAGLE-2 in τ, the fastest MoA over EAGLE-2 in speed.

    EAGLE-2 as they retrained it; means over the data sets that every row has, so that the cells
    which are flagged do not count. Empty where the file is not there.
    """
    if not path.exists():
        return ()
    table = json.loads(path.read_text(encoding="utf-8"))
    rows = {row["drafter"]: row["cells"] for row in table["rows"]}
    shared = [at for at in range(len(table["data"])) if all(cells[at] for cells in rows.values())]
    moa = {name: cells for name, cells in rows.items() if name.startswith("MoA")}
    first = next(cells for name, cells in moa.items() if name.endswith("N = 1"))
    rival = next(cells for name, cells in rows.items() if "EAGLE-2, retrained" in name)
    speeds = [_mean(cells, shared, 0) for cells in moa.values()]
    return (
        _mean(first, shared, 1) / _mean(rival, shared, 1),
        max(speeds) / _mean(rival, shared, 0),
    )


def _mean(cells: list[Any], shared: list[int], part: int) -> float:
    return sum(cells[at][part] for at in shared) / len(shared)
