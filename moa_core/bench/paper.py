"""The authors' published figures, recorded in assets/results/paper.json. Not measured here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from moa_core.assets import ASSETS

PATH = ASSETS / "results" / "paper.json"
Cell = tuple[float, float]  # speed-up over the authors' plain decoding, τ


@dataclass(frozen=True)
class Row:
    """A drafter's figures.

    cells    by data set; None for one that is flagged as a slip and left out
    printed  the mean as the authors print it
    flagged  whether that mean includes the cell left out
    """

    drafter: str
    cells: tuple[Cell | None, ...]
    printed: Cell
    flagged: bool

    @property
    def tli(self) -> int | None:
        """N of a MoA drafter."""
        named = re.fullmatch(r"MoA, TLI N = (\d+)", self.drafter)
        return int(named[1]) if named else None


@dataclass(frozen=True)
class Paper:
    """The table, and what it says of itself. sets: names of the data sets."""

    rows: tuple[Row, ...]
    sets: tuple[str, ...]
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
        return [at for at in range(len(self.sets)) if all(row.cells[at] for row in self.rows)]

    def mean(self, row: Row) -> Cell:
        """A row's mean over the shared data sets, computed here."""
        cells = [cell for at in self.shared if (cell := row.cells[at])]
        speed_ups, taus = zip(*cells, strict=True)
        return sum(speed_ups) / len(cells), sum(taus) / len(cells)


@cache
def published(path: Path = PATH) -> Paper | None:
    """The recorded table; None where its file is not there."""
    if not path.exists():
        return None
    table = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple(
        Row(
            row["drafter"],
            tuple(tuple(cell) if cell else None for cell in row["cells"]),
            tuple(row["printed_mean"]),
            row["mean_includes_flagged"],
        )
        for row in table["rows"]
    )
    about = {name: table[name] for name in ("target", "settings", "hardware", "flag", "source")}
    return Paper(rows, tuple(table["data"]), **about)
