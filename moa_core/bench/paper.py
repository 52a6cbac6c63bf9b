"""The authors' published figures, from assets/results/paper.json; two methods' speeds compared."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgspec

from moa_core.assets import ASSETS
from moa_core.bench.results import speed_ratio

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
    """Our speed divided by theirs, and whether they are level: the 95 % interval of the ratio, over
    the prompts, includes 1, or, where that is not recorded, the spreads overlap; else None."""

    value: float
    level: bool | None = None


def ratio(ours: dict[str, Any], theirs: dict[str, Any]) -> Ratio | None:
    """The ratio of two methods' speeds, of whole runs; None if either is missing."""
    top, bottom = (side.get("tokens_per_second") for side in (ours, theirs))
    if not top or not bottom:
        return None
    if ends := speed_ratio(ours, theirs):
        return Ratio(top / bottom, ends[0] <= 1 <= ends[1])
    mine, other = (side.get("tokens_per_second_spread") for side in (ours, theirs))
    if not (mine and other and mine[0] < mine[1] and other[0] < other[1]):
        return Ratio(top / bottom, None)
    return Ratio(top / bottom, mine[0] <= other[1] and other[0] <= mine[1])
