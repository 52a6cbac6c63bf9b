"""The authors' published figures for TLI, read from the recorded table. Not measured here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PATH = Path(__file__).parents[1] / "assets" / "results" / "paper.json"


@dataclass(frozen=True)
class Published:
    """Means over the paper's data sets. rows: {N: (τ, speed-up over plain decoding)}."""

    rows: dict[int, tuple[float, float]]
    target: str
    settings: str
    paper: str
    sets: int


@cache
def published() -> Published:
    """The paper's rows for MoA, by N."""
    table = json.loads(PATH.read_text(encoding="utf-8"))
    rows = {}
    for row in table["rows"]:
        named = re.fullmatch(r"MoA, TLI N = (\d+)", row["drafter"])
        if named:
            speed_up, tau = row["printed_mean"]
            rows[int(named[1])] = (tau, speed_up)
    return Published(
        dict(sorted(rows.items())),
        table["target"],
        table["settings"],
        table["source"]["paper"],
        len(table["data"]),
    )
