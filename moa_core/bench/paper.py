"""The authors' published figures, from assets/results/paper.json, and a recording's answer to
their claim: MoA against EAGLE-2, in τ and in speed."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgspec

from moa_core.assets import ASSETS
from moa_core.bench.records import Recording
from moa_core.bench.results import tree_text
from moa_core.drafters.names import LOOKUP, family, label

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
    """A recording's MoA against EAGLE, like with like: alone, then both with n-gram lookup. It is
    not escaped."""
    found = [words for extra in ("", LOOKUP) if (words := _against(recording, extra))]
    return " ".join(found) or "nothing to compare, since MoA and EAGLE-2 are not both in it."


def _against(recording: Recording, extra: str) -> str:
    """A MoA whose name ends so, against EAGLE with the same: in speed, the fastest MoA; of a single
    pass, which says little of speed, in τ."""
    moa = {
        name: one for name, one in recording.methods.items()
        if family(name.removesuffix(LOOKUP)) == "moa" and name.endswith(LOOKUP) == bool(extra)
    }  # fmt: skip
    name = max(moa, key=lambda one: moa[one].get("tokens_per_second") or 0.0, default="")
    rival = recording.figures(RIVAL + extra)
    whole = ratio(moa.get(name, {}), rival, "tokens_per_second")
    timed = whole is not None and whole.overlap is not None
    name = name if timed or OURS + extra not in moa else OURS + extra
    if not rival or not name:
        return ""
    gain, rate = papers_ratios(published())
    # Larger trees accept more, so with different trees there is no ratio like the paper's.
    alike = tree_text(moa[name]) == tree_text(rival) and "auto" not in str(tree_text(rival))
    papers = f"the paper: {rate if timed else gain:.2f} ×"
    known = not extra and (timed or (alike and name == OURS))
    said = []
    for other in (RIVAL, "eagle3"):
        key = "tokens_per_second" if timed else "tau"
        if found := ratio(moa[name], recording.figures(other + extra), key):
            notes = ["no clear difference"] * bool(found.overlap)
            notes += [papers] * (known and other == RIVAL)
            after = f" ({'; '.join(notes)})" if notes else ""
            said.append(f"{found.value:.2f} × {label(other + extra)}’s{after}")
    trees = "" if timed or alike else ", each with its own tree"
    unit = "writes {} tokens per second" if timed else f"yields {{}} tokens per model call{trees}"
    return f"{label(name)} {unit.format(' and '.join(said))}."
