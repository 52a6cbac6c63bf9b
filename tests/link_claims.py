"""What the recorded files of links say: the second half of tests/recorded_claims.py."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "assets" / "results"
MOA = ("moa-n0", "moa-n1", "moa-n2", "moa-n3")
LINKS = ("lan", "wifi", "5g", "4g", "slow-4g")


def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def line(name: str, *cells: str) -> str:
    return f"| {' | '.join((f'`{name}`', *cells))} |"


def link_row(of: Any, method: str, link: str) -> Any:
    [found] = [
        row for row in of["rows"]
        if (row["method"], row["link"]) == (method, link)
    ]  # fmt: skip
    return found


def away(of: Any) -> tuple[str, int]:
    """Runs with a server, and how many of them differ from the local text."""
    rows = [row for row in of["rows"] if row["link"] != "local"]
    return f"{sum(row['runs'] for row in rows):,}", sum(row["differing"] for row in rows)


def presets() -> Iterator[str]:
    of = read("link/presets.json")
    for method in (*MOA, "eagle2", "independent", "stream"):
        times = [link_row(of, method, link)["ms_per_token"] for link in LINKS]
        local = link_row(of, "vanilla" if method == "stream" else method, "local")
        lan = link_row(of, method, "lan")
        cells = [f"{time:.1f}" for time in (local["ms_per_token"], *times)]
        cells += [f"{lan['calls_per_100']:.1f}", f"{lan['server_s_per_100']:.2f}"]
        yield line(method, *cells, f"{lan['down_per_token']:,.0f}")
    runs, differing = away(of)
    yield f"{differing} of {runs} runs with a server"
    calls = [link_row(of, name, "lan")["calls_per_100"] for name in ("moa-n3", "moa-n1", "eagle2")]
    yield f"{calls[0] / calls[2]:.2f} of EAGLE-2's calls (N = 1: {calls[1] / calls[2]:.2f})"


def offline() -> Iterator[str]:
    rows = read("link/offline.json")["rows"]

    def found(method: str, cut: float, kind: str, figure: str) -> float:
        return next(
            row[figure] for row in rows
            if (row["method"], row["cut"], row["kind"]) == (method, cut, kind)
        )  # fmt: skip

    cuts = (0.0, 0.1, 0.25, 0.5, 0.75)
    for method in ("target", *MOA, "eagle2", "glide", "independent", "stream"):
        right = [f"{100 * found(method, cut, 'tasks', 'right'):.1f}" for cut in cuts]
        ends = [] if method == "stream" else [
            f"{found(method, cut, 'texts', 'log_prob'):.2f}" for cut in (0.0, 0.75)
        ]  # fmt: skip
        yield line(method, *right, " ... ".join(ends))
    yield f"{next(row['items'] for row in rows if row['kind'] == 'tasks')} held-out tasks"
    yield f"{next(row['items'] for row in rows if row['kind'] == 'texts')} stories and dialogues"
