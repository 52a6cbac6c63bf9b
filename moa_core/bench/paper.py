"""The authors' published figures, from assets/results/paper.json; ratios of two methods."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgspec

from moa_core.assets import ASSETS

PATH = ASSETS / "results" / "paper.json"
Cell = tuple[float, float]  # speed-up over the authors' plain decoding, τ


@dataclass(frozen=True)
class Row:
    """A drafter's figures by data set; None for one flagged as a slip, which is left out."""

    drafter: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Paper:
    """The table and its notes, as in its file. data: names of the data sets."""

    rows: tuple[Row, ...]
    data: tuple[str, ...]
    target: str
    settings: str
    hardware: str
    flag: str
    source: dict[str, str]

    @property
    def shared(self) -> list[int]:
        """Indices of the data sets that every row has, so without flagged cells."""
        return [at for at in range(len(self.data)) if all(row.cells[at] for row in self.rows)]

    def mean(self, row: Row) -> Cell:
        """A row's mean over the shared data sets, computed here."""
        cells = [cell for at in self.shared if (cell := row.cells[at])]
        speed_ups, taus = zip(*cells, strict=True)
        return sum(speed_ups) / len(cells), sum(taus) / len(cells)


@cache
def published() -> Paper:
    return msgspec.json.decode(PATH.read_bytes(), type=Paper)


class Ratio(NamedTuple):
    """Our figure divided by theirs, and whether the spreads overlap; None without a spread."""

    value: float
    overlap: bool | None = None


def ratio(ours: dict[str, Any], theirs: dict[str, Any], key: str) -> Ratio | None:
    """The ratio of two methods' figures; None if either is missing."""
    top, bottom = ours.get(key), theirs.get(key)
    if not top or not bottom:
        return None
    mine, other = (side.get(f"{key}_spread") for side in (ours, theirs))
    if not (mine and other and mine[0] < mine[1] and other[0] < other[1]):
        return Ratio(top / bottom, None)
    return Ratio(top / bottom, mine[0] <= other[1] and other[0] <= mine[1])
