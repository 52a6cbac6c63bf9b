"""What the recorded files of links say: the second half of tests/recorded_claims.py."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "assets" / "results"
MOA = ("moa-n0", "moa-n1", "moa-n2", "moa-n3")
LINKS = ("local", "lan", "wifi", "5g", "4g", "slow-4g", "satellite")


def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def line(name: str, *cells: str) -> str:
    return f"| {' | '.join((f'`{name}`', *cells))} |"


def link_row(of: Any, method: str, link: str, clients: int = 1) -> Any:
    [found] = [
        row for row in of["rows"]
        if (row["method"], row["link"], row["clients"]) == (method, link, clients)
    ]  # fmt: skip
    return found


def away(of: Any) -> tuple[str, int]:
    """Runs with a server, and how many of them differ from the local text."""
    rows = [row for row in of["rows"] if row["link"] != "local"]
    return f"{sum(row['runs'] for row in rows):,}", sum(row["differing"] for row in rows)


def presets() -> Iterator[str]:
    of = read("link/presets.json")
    for method in (*MOA, "eagle2", "independent", "stream"):
        times = [link_row(of, method, link)["ms_per_token"] for link in LINKS if link != "local"]
        local = link_row(of, "vanilla" if method == "stream" else method, "local")
        lan = link_row(of, method, "lan")
        cells = [f"{time:.1f}" for time in (local["ms_per_token"], *times)]
        cells += [f"{lan['calls_per_100']:.1f}", f"{lan['server_s_per_100']:.2f}"]
        yield line(method, *cells, f"{lan['down_per_token']:,.0f}")
    runs, differing = away(of)
    yield f"{differing} of {runs} runs with a server"
    calls = [link_row(of, name, "lan")["calls_per_100"] for name in ("moa-n3", "moa-n1", "eagle2")]
    yield f"{calls[0] / calls[2]:.2f} of EAGLE-2's calls (N = 1: {calls[1] / calls[2]:.2f})"
    each = link_row(read("link/calls.json"), "none", "4g")["ms_per_token"]
    yield f"takes {each:.1f} ms a token"


def chains() -> Iterator[str]:
    of = read("link/chains.json")
    found = {name: link_row(of, name, "direct") for name in (*MOA, "eagle2")}
    yield "| " + " | ".join(f"{one['calls_per_100']:.1f}" for one in found.values()) + " |"
    ends = [found[name]["calls_to_eagle2"] for name in MOA]
    yield "| ".join(f"{one:.2f} ({low:.2f}-{high:.2f}) " for one, low, high in ends) + "| 1 |"
    runs, differing = away(of)
    yield f"{differing} of {runs} runs differ"
    for count in (8, 5):
        mine = link_row(read(f"link/chains-{count}.json"), "moa-n3", "direct")
        yield f"{mine['calls_to_eagle2'][0]:.2f} for chains of {count}"


def crowds() -> Iterator[str]:
    of = read("link/clients.json")

    def took(method: str, clients: int) -> str:
        return f"{link_row(of, method, '4g', clients)['ms_per_token']:.1f}"

    eight = took("stream", 8), took("moa-n1", 8)
    yield "8 clients API streaming takes {} ms a token and `moa-n1` {}".format(*eight)
    sixteen = [took(name, 16) for name in ("stream", "moa-n1", "moa-n2", "eagle2")]
    yield "16 clients {} and {} (`moa-n2` {}, `eagle2` {})".format(*sixteen)
    runs, differing = away(of)
    yield f"{differing} of {runs} runs"
    of = read("link/map.json")
    one, several = of["errors"]
    yield f"{len(of['cells'])} cells"
    yield f"{one['count'] + several['count']} measured ones"
    most = max(one["largest"], several["largest"])
    yield (
        f"{100 * one['median']:.1f} % (one client) and {100 * several['median']:.1f} % (several) "
        f"at the median, and by {100 * most:.0f} % at most"
    )
    below = {
        row["clients"]: row["below_ms"] for row in of["break_even"]
        if (row["method"], row["against"], row["down_mbps"], row["up_mbps"], row["loss"])
        == ("moa-n1", "stream", 9, 1.5, 0)
    }  # fmt: skip
    assert below[1] == 0
    trips = [f"{below[count]:.0f} ms with {count}" for count in (4, 8, 16)]
    yield f"at 9 / 1.5 Mbit/s: never with 1 client, {', '.join(trips)}"


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


def wires() -> Iterator[str]:
    rows = read("link/numbers.json")["rows"]
    for method in ("moa-n1", "eagle2"):
        mine = [next(row for row in rows if (row["method"], row["link"], row["numbers"])
                     == (method, "direct", form)) for form in ("f32", "bf16", "int8")]  # fmt: skip
        lengths = ", ".join(f"{row['tau']:.2f}" for row in mine)
        sizes = ", ".join(f"{row['down_per_token']:,.0f}" for row in mine)
        yield f"`{method}` {'is ' if method == 'moa-n1' else ''}{lengths}"
        yield sizes
    weights = {(row["target"], row["last"]): row for row in read("link/weight.json")["rows"]}
    ours, large = ([weights[name, last] for last in (0, 1)] for name in ("tiny-8m", "Llama-3-8B"))
    yield (
        f"{ours[0]['target_mb']:.1f} MB of the bundle's target for N = 0 and "
        f"{ours[1]['target_mb'] - ours[0]['target_mb']:.1f} MB more for each N, beside "
        f"{ours[0]['drafter_mb']:.1f} MB of drafter"
    )
    yield (
        f"{large[0]['target_mb']:,.0f} MB, {large[1]['target_mb'] - large[0]['target_mb']:.0f} MB "
        f"more for each N, and {large[0]['drafter_mb']:.0f} MB of drafter"
    )


def spans() -> Iterator[str]:
    of = read("spans.json")
    mine = {row["hiding"]: row for row in of["rows"] if row["method"] == "moa-n1"}
    yield f"{of['prompts']} prompts"
    for hiding in ("placeholder", "noise 1", "noise 4"):
        row = mine[hiding]
        shares = (f"{100 * row[key]:.0f} %" for key in ("guessed", "same"))
        yield f"| {hiding} | {' | '.join(shares)} | {row['tau']:.2f} |"
    yield f"| open | all | {100 * mine['open']['same']:.0f} % | {mine['open']['tau']:.2f} |"
