"""The authors' published figures, from assets/results/paper.json, and what a recording says of
their claim: MoA against EAGLE-2, in τ and in speed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from moa_core.assets import ASSETS
from moa_core.bench.records import Recording
from moa_core.bench.results import tree_text

PATH = ASSETS / "results" / "paper.json"
Cell = tuple[float, float]  # speed-up over the authors' plain decoding, τ


@dataclass(frozen=True)
class Row:
    """A drafter's figures.

    cells                  by data set; None for one that is flagged as a slip and left out
    printed_mean           as the authors print it
    mean_includes_flagged  whether that mean includes the cell left out
    """

    drafter: str
    cells: tuple[Cell | None, ...]
    printed_mean: Cell
    mean_includes_flagged: bool

    @property
    def tli(self) -> int | None:
        """N of a MoA drafter."""
        named = re.fullmatch(r"MoA, TLI N = (\d+)", self.drafter)
        return int(named[1]) if named else None


@dataclass(frozen=True)
class Paper:
    """The table, and what it says of itself, as in its file. data: names of the data sets."""

    rows: tuple[Row, ...]
    data: tuple[str, ...]
    target: str
    settings: str
    hardware: str
    flag: str
    source: dict[str, str]

    @property
    def by_tli(self) -> dict[int, Row]:
        """MoA's rows, the least N first."""
        found = {row.tli: row for row in self.rows if row.tli is not None}
        return dict(sorted(found.items()))

    @property
    def shared(self) -> list[int]:
        """Places of the data sets that every row has: flagged cells do not count there."""
        return [at for at in range(len(self.data)) if all(row.cells[at] for row in self.rows)]

    def mean(self, row: Row) -> Cell:
        """A row's mean over the shared data sets, computed here."""
        cells = [cell for at in self.shared if (cell := row.cells[at])]
        speed_ups, taus = zip(*cells, strict=True)
        return sum(speed_ups) / len(cells), sum(taus) / len(cells)


@cache
def published() -> Paper:
    """The recorded table."""
    return msgspec.json.decode(PATH.read_bytes(), type=Paper)


# ---- the claim ----

OURS, RIVAL = "moa-n1", "eagle2"
GAINS = "MoA N=1 gains {} tokens per target call (τ)"
SINGLE_PASS = "speeds of a single pass, recorded without a spread, are not compared"


def papers_ratios(paper: Paper) -> tuple[float, float]:
    """From the authors' table: N = 1 over EAGLE-2 in τ, the fastest MoA over EAGLE-2 in speed.

    EAGLE-2 as they retrained it; means over the data sets that every row has, so that the cells
    which are flagged do not count.
    """
    rival = paper.mean(next(row for row in paper.rows if "EAGLE-2, retrained" in row.drafter))
    moa = {tli: paper.mean(row) for tli, row in paper.by_tli.items()}
    return moa[1][1] / rival[1], max(speed_up for speed_up, _ in moa.values()) / rival[0]


@dataclass(frozen=True)
class Ratio:
    """Ours over theirs, and whether the two spreads overlap; None where there is no spread."""

    value: float
    overlap: bool | None = None


def ratio(ours: dict[str, Any], theirs: dict[str, Any], key: str) -> Ratio | None:
    """The ratio of a figure of two methods; None where either lacks it."""
    top, bottom = ours.get(key), theirs.get(key)
    if not top or not bottom:
        return None
    mine, other = (side.get(f"{key}_spread") for side in (ours, theirs))
    if not (mine and other and mine[0] < mine[1] and other[0] < other[1]):
        return Ratio(top / bottom, None)
    return Ratio(top / bottom, mine[0] <= other[1] and other[0] <= mine[1])


def claim(recording: Recording) -> str:
    """What a recording says of MoA against EAGLE-2, in one or two plain sentences, unescaped."""

    def speed(name: str) -> float:
        return recording.figures(name).get("tokens_per_second") or 0.0

    drafted = [name for name in recording.methods if name.startswith("moa-n")]
    fastest = max(drafted, key=speed, default="")
    theirs = papers_ratios(published())
    ours, rival = recording.figures(fastest), recording.figures(RIVAL)
    whole = ratio(ours, rival, "tokens_per_second")
    decoding = ratio(ours, rival, "decode_tokens_per_second")
    speeds = [found for found in (whole, decoding) if found]
    named = f"MoA N={fastest.removeprefix('moa-n')}, the fastest MoA here, writes {{}} tokens/s"
    one = recording.figures(OURS)
    if tree_text(one) == tree_text(rival) and "auto" not in str(tree_text(one)):
        lengths = _part(GAINS, ratio(one, rival, "tau"), theirs[:1])
    else:  # larger trees accept more: no ratio to set beside the paper's
        lengths = _part(f"{GAINS}, each with its own tree", ratio(one, rival, "tau"), ())
    parts = [lengths]
    # A difference between speeds that were passed over once may be the machine's.
    if speeds and all(found.overlap is None for found in speeds):
        parts.append(SINGLE_PASS)
    else:
        parts += [_part(f"{named} over whole runs", whole, theirs[1:])]
        parts += [_part("in decoding alone that is {}", decoding, ())]
    said = [part for part in parts if part]
    if not said:
        return "nothing to compare, since MoA and EAGLE-2 are not both in it."
    return f"{'. '.join(one[0].upper() + one[1:] for one in said)}."


def _part(sentence: str, found: Ratio | None, paper: Sequence[float]) -> str:
    """sentence: {} is where the ratio goes. paper: the authors' own, if it may stand beside it."""
    if found is None:
        return ""
    said = sentence.format(f"{found.value:.2f} × EAGLE-2’s")
    spread = {None: "no spread recorded", True: "within the spread of the runs"}
    notes = [spread.get(found.overlap, "more than the spread of the runs")]
    notes += [f"the paper: {paper[0]:.2f} ×"] if paper else []
    return f"{said} ({'; '.join(notes)})"
