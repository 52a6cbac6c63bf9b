"""The authors' published figures, from assets/results/paper.json, and a recording's answer to
their claim: MoA against EAGLE-2, in τ and in speed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgspec

from moa_core.assets import ASSETS
from moa_core.bench.records import Recording
from moa_core.bench.results import tree_text

PATH = ASSETS / "results" / "paper.json"
Cell = tuple[float, float]  # speed-up over the authors' plain decoding, τ


@dataclass(frozen=True)
class Row:
    """A drafter's figures.

    cells                  by data set; None for one flagged as a slip, which is left out
    printed_mean           as the authors print it
    mean_includes_flagged  whether that mean includes the cell left out
    """

    drafter: str
    cells: tuple[Cell | None, ...]
    printed_mean: Cell
    mean_includes_flagged: bool


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


OURS, RIVAL = "moa-n1", "eagle2"


def papers_ratios(paper: Paper) -> tuple[float, float]:
    """From the authors' table: N = 1 over EAGLE-2 in τ, the fastest MoA over EAGLE-2 in speed.

    EAGLE-2 as they retrained it; means over the data sets that every row has, so that the cells
    which are flagged do not count.
    """
    means = {row.drafter: paper.mean(row) for row in paper.rows}
    speed_up, tau = means["EAGLE-2, retrained by the authors"]
    fastest = max(mean[0] for name, mean in means.items() if name.startswith("MoA"))
    return means["MoA, TLI N = 1"][1] / tau, fastest / speed_up


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


def claim(recording: Recording) -> str:
    """A recording's comparison of MoA with EAGLE-2, in one or two sentences, unescaped."""

    def speed(name: str) -> float:
        return recording.figures(name).get("tokens_per_second") or 0.0

    drafted = [name for name in recording.methods if name.startswith("moa-n")]
    fastest, rival = max(drafted, key=speed, default=""), recording.figures(RIVAL)
    whole = ratio(recording.figures(fastest), rival, "tokens_per_second")
    timed = whole is not None and whole.overlap is not None  # one pass says little
    name = fastest if timed or OURS not in recording.methods else OURS
    one = recording.figures(name)
    lengths, decoding = ratio(one, rival, "tau"), ratio(one, rival, "decode_tokens_per_second")
    if lengths is None:
        return "nothing to compare, since MoA and EAGLE-2 are not both in it."
    gain, rate = papers_ratios(published())
    # Larger trees accept more, so with different trees there is no ratio like the paper's.
    alike = tree_text(one) == tree_text(rival) and "auto" not in str(tree_text(one))
    known = f"the paper: {gain:.2f} ×" if name == OURS else "the same tree"
    length = f"yields {_times(lengths)} tokens ({known if alike else 'each with its own tree'})"
    called = f"MoA N={name.removeprefix('moa-n')}"
    if not timed or whole is None:
        return f"Each target call of {called} {length}. Each ran once: no ratio of speeds."
    alone = f", and {_times(decoding)} in decoding alone" if decoding else ""
    newer = ratio(one, recording.figures("eagle3"), "tokens_per_second")
    beside = f" Its speed is {_times(newer, 'EAGLE-3')}." if newer else ""
    return (
        f"{called} writes {_times(whole)} tokens per second over whole runs (the paper: "
        f"{rate:.2f} ×){alone}.{beside} Each of its target calls {length}."
    )


def _times(found: Ratio, whose: str = "EAGLE-2") -> str:
    within = " (within the spread of the runs)" if found.overlap else ""
    return f"{found.value:.2f} × {whose}’s{within}"
