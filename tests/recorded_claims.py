"""Every measured sentence and table row of two pages, made anew from the recorded files.

A page must have each of them, to the letter. What they do not cover may hold no number, but for
those that `NO_MEASUREMENT` names. So a changed recording or a changed figure fails a test.

`python -m tests.recorded_claims OLD` replaces the figures of the checkout OLD by those of this one.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moa_core.bench.paper import papers_ratios, published
from moa_core.bench.records import select

ROOT = Path(__file__).parents[1]
MOA = ("moa-n0", "moa-n1", "moa-n2", "moa-n3")
LINKS = ("lan", "wifi", "5g", "4g", "slow-4g")
KINDS = ("story", "words", "reading", "sum", "task")
WHOLE, ALONE = "tokens_per_second", "decode_tokens_per_second"

NO_MEASUREMENT = (  # patterns of numbers that are names, versions, settings or others' figures
    r"\bN (?:=|>) \d(?: \.\.\. \d)?(?: to \d)?", r"EAGLE-[23]", r"Llama-3(?:\.1)?(?:-8B)?",
    r"Qwen3",
    r"\d{4}-\d{2}-\d{2}", r"arXiv \d{4}\.\d{5}", r"\(\d{4}\.\d{5}\)", r"[Cc]ommit [0-9a-f]{7}\b",
    r"\b\d+-\d+-\d+\b", r"Python 3\.11 or 3\.12", r"torch 2\.13", r"Apache-2\.0", r"ICLR 2025",
    r"\b(?:4|8|12) drafts\b",
    r"float32|bf(?:loat)?16|\bf32|int8", r"\b8B\b", r"at batch 1\b",
    r"95 % intervals", r"4-core", r"temperature 1\b", r"TLI.{0,90}: 0 \.\.\. 3 swept",
    r"MoA is from 2024", r"\b\de-3\b", r"seeds? \d(?: and \d)?",
    r"depth 5, breadth 4, 11 drafts", r"\b(?:slow-)?[45]g\b", r"per 100\b",
    r"\| 0 % \| 10 % \| 25 % \| 50 % \| 75 % \| texts, 0 % \.\.\. 75 %",
    r"τ 6\.2 and 4\.4 times plain decoding",
    r"DFlash 6\.5 and 4\.9 times",
    r"JetSpec 4\.9 to 9\.6 by set",
)  # fmt: skip


def read(name: str) -> Any:
    return json.loads((ROOT / "assets" / "results" / name).read_text(encoding="utf-8"))


def line(name: str, *cells: str) -> str:
    return f"| {' | '.join((f'`{name}`', *cells))} |"


SAME, BEST, PAPER, WARM, PEERS = (
    read(f"{name}/summary.json")["methods"]
    for name in ("same-tree", "best-tree", "paper-tree", "temperature-1", "peers")
)
CHAINS = {length: read(f"chain-{length}/summary.json")["methods"] for length in (4, 8, 12)}
FASTEST = "moa-n0"  # over whole runs, in BEST
LLAMA = PEERS["llama-cpp"]  # on one thread: two hinder each other on this machine


def tau(methods: Any, name: str) -> str:
    return f"{methods[name]['tau']:.2f}"


def over(methods: Any, name: str, other: str, key: str = WHOLE) -> str:
    return f"{methods[name][key] / methods[other][key]:.2f}"


def rate(methods: Any, name: str, key: str = WHOLE) -> str:
    return f"{methods[name][key]:.0f}"


def by_kind(methods: Any, name: str) -> list[str]:
    found = methods[name]["kinds"]
    return [f"{found[kind]['tau']:.2f}" for kind in KINDS]


def spread(methods: Any, name: str) -> str:
    low, high = methods[name]["tau_spread"]
    return f"`{name}` {low:.2f}-{high:.2f}"


def best_row(name: str) -> str:
    low, high = BEST[name][f"{ALONE}_spread"]
    versus, alone = (
        [over(BEST, name, other, key) for other in ("vanilla", "eagle2")] for key in (WHOLE, ALONE)
    )
    alone.append(f"{BEST[name][ALONE] / LLAMA[ALONE]:.2f}")
    decoding = f"{rate(BEST, name, ALONE)} ({low:.0f}-{high:.0f})"
    return line(name, tau(BEST, name), f"**{rate(BEST, name)}**", *versus, decoding, *alone)


def row_of(name: str, **wanted: Any) -> Any:
    """The one row of a recording with these values."""
    [found] = select(read(name)["rows"], **wanted)
    return found


def presets() -> Iterator[str]:
    def link_row(method: str, link: str) -> Any:
        return row_of("link/presets.json", method=method, link=link)

    for method in (*MOA, "eagle2", "eagle3", "independent", "stream"):
        times = [link_row(method, link)["ms_per_token"] for link in LINKS]
        local = link_row("vanilla" if method == "stream" else method, "local")
        lan = link_row(method, "lan")
        cells = [f"{time:.1f}" for time in (local["ms_per_token"], *times)]
        cells += [f"{lan['calls_per_100']:.1f}", f"{lan['server_s_per_100']:.2f}"]
        yield line(method, *cells, f"{lan['down_per_token']:,.0f}")
    far = [row for row in read("link/presets.json")["rows"] if row["link"] != "local"]
    runs, differing = (sum(row[name] for row in far) for name in ("runs", "differing"))
    yield f"{differing} of {runs:,} runs with a server"
    n3, n1, e2 = (link_row(one, "lan")["calls_per_100"] for one in ("moa-n3", "moa-n1", "eagle2"))
    yield f"{n3 / e2:.2f} times as many calls as EAGLE-2 (N = 1: {n1 / e2:.2f})"


def offline() -> Iterator[str]:
    def found(method: str, cut: float, kind: str, figure: str) -> float:
        return row_of("link/offline.json", method=method, cut=cut, kind=kind)[figure]

    cuts = (0.0, 0.1, 0.25, 0.5, 0.75)
    for method in ("target", *MOA, "eagle2", "eagle3", "independent", "stream"):
        right = [f"{100 * found(method, cut, 'tasks', 'right'):.1f}" for cut in cuts]
        shown = () if method == "stream" else (0.0, 0.75)
        ends = [f"{found(method, cut, 'texts', 'log_prob'):.2f}" for cut in shown]
        yield line(method, *right, " ... ".join(ends))
    yield f"{found('target', 0.0, 'tasks', 'items')} held-out tasks"
    yield f"{found('target', 0.0, 'texts', 'items')} stories"


def by_method(methods: Any, *versus: str) -> Iterator[str]:
    for name in methods:
        cells = [tau(methods, name), *by_kind(methods, name), f"**{rate(methods, name)}**"]
        cells += [over(methods, name, other) for other in versus]
        yield line(name, *cells, rate(methods, name, ALONE))


def results_page() -> Iterator[str]:
    """What assets/results/README.md says."""
    yield from by_method(SAME, "vanilla")
    prompts = SAME["vanilla"]["prompts"]
    yield f"{prompts} prompts, greedy, tree 5-4-11"
    differing = prompts * (1 - SAME["llama-cpp"]["identical_to_vanilla"])
    yield f"llama.cpp's text differs on {differing:.0f} of {prompts} prompts"
    yield f"{100 * SAME['vanilla']['repeats_8gram']:.1f} % of the output repeats an 8-gram"
    yield ", ".join(spread(SAME, name) for name in (*MOA, "eagle2", "eagle3"))
    for name in (*MOA, "eagle2", "eagle3", "independent"):
        yield line(name, *(tau(methods, name) for methods in CHAINS.values()))
    yield f"{CHAINS[4]['moa-n0']['prompts']} prompts, no branches"
    yield from by_method(PAPER)
    yield from map(best_row, BEST)
    yield f"{BEST['vanilla']['prompts']} prompts, three passes"
    whole, alone = (f"{LLAMA[key]:.0f}" for key in (WHOLE, ALONE))
    yield f"{whole} tokens per second over whole runs, {alone} in decoding"
    for name in (FASTEST, "eagle2"):
        seconds = BEST[name]["seconds"]
        yield f"{100 * seconds['prefill'] / sum(seconds.values()):.0f} % of `{name}`'s time"
    yield f"{BEST['vanilla']['new_tokens'] / BEST['vanilla']['prompts']:.0f} new tokens per prompt"
    yield from by_method(WARM, "vanilla")
    yield f"{WARM['vanilla']['prompts']} prompts, tree 5-4-11"
    yield f"{100 * WARM['vanilla']['repeats_8gram']:.1f} % of the output repeats an 8-gram"
    yield f"{over(WARM, FASTEST, 'eagle2')} times EAGLE-2's"
    for part in (said, presets, offline, learning, block):
        yield from part()


def learning() -> Iterator[str]:
    """The section on training time."""
    found, methods = read("learning.json"), ("moa-n1", "eagle2", "eagle3")

    def mean(key: str, method: str, updates: int) -> float:
        seeds = select(found["rows"], method=method, updates=updates)
        assert len(seeds) == 2
        return sum(row[key] for row in seeds) / 2

    for updates in (200, 400):
        cells = [
            f"{mean('tau', name, updates):.2f} ({mean('seconds', name, updates):.0f})"
            for name in methods
        ]
        yield f"| {updates} | {' | '.join(cells)} |"
    for rate in (0.002, 0.008):
        last = [select(found["rates"], method=name, rate=rate)[0]["tau"] for name in methods]
        yield "{:.2f}, {:.2f} and {:.2f} at the rate".format(*last)
    apart = [select(found["rows"], method=name, updates=400) for name in methods]
    yield f"by at most {max(abs(one['tau'] - other['tau']) for one, other in apart):.2f}"
    final = mean("tau", "eagle2", 400)
    first = next(n for n in range(50, 401, 50) if mean("tau", "moa-n1", n) >= final)
    yield f"after {first} updates and {mean('seconds', 'moa-n1', first):.0f} s"
    yield f"after 400 and {mean('seconds', 'eagle2', 400):.0f} s"
    yield f"{found['settings']['prompts']} prompts"


def block() -> Iterator[str]:
    """The section on a block in one pass."""
    found = read("block.json")
    rows = [row for row in found["rows"] if row["engine"] == "onnxruntime"]
    ours, block = sorted(rows, key=lambda row: row["method"] != "moa-n0")
    yield f"{found['updates']:,} more updates. On {found['settings']['prompts']} prompts"
    yield f"its τ is {block['tau']:.2f}, that of N = 0 is {ours['tau']:.2f}"
    yield f"{block['draft_ms']:.1f} ms instead of {ours['draft_ms']:.1f} ms"
    rates = [f"{row['tokens_per_second']:.0f}" for row in (block, ours)]
    yield "{} tokens/s, with N = 0 {} (".format(*rates)
    for depth, words in enumerate(("N = 0 (", "accepted in ")):
        shares = [f"{100 * row['accepted_after_accepted'][depth]:.0f} %" for row in (block, ours)]
        yield f"{words}{' and '.join(shares)}"


def said() -> Iterator[str]:
    """The section on what all of it says."""
    for name, shown in (("moa-n1", "N = 1"), ("moa-n3", "N = 3"), ("eagle3", "EAGLE-3")):
        ratios = [
            f"{methods[name]['tau'] / methods['eagle2']['tau']:.2f}"
            for methods in (SAME, PAPER, WARM)
        ]
        yield f"| {shown} | {' | '.join(ratios)} |"
    paper = papers_ratios(published())
    yield f"{paper[0]:.2f} times EAGLE-2's τ and {paper[1]:.2f} times its speed"
    yield f"EAGLE-3 has {over(SAME, 'eagle3', 'eagle2', 'tau')} times EAGLE-2's τ"
    yield f"MoA with N = 1 has {over(SAME, 'moa-n1', 'eagle3', 'tau')} times EAGLE-3's"


ROWS = {
    "vanilla": "plain decoding",
    "hf-generate": "transformers' `generate`",
    "eagle2": "EAGLE-2",
    "eagle3": "EAGLE-3",
    **{name: f"MoA, N = {name[-1]}" for name in MOA},
}


def readme() -> Iterator[str]:
    """What README.md says."""
    for name, shown in ROWS.items():
        cells = [tau(SAME, name)]
        for key in (WHOLE, ALONE):
            cells += [rate(BEST, name, key), over(BEST, name, "vanilla", key)]
        yield f"| {shown} | {' | '.join(cells)} |"
    cells = [
        f"{LLAMA[key]:.0f} | {LLAMA[key] / BEST['vanilla'][key]:.2f}" for key in (WHOLE, ALONE)
    ]
    yield f"| llama.cpp, plain, one thread | 1.00 | {' | '.join(cells)} |"
    yield f"{SAME['vanilla']['prompts']} prompts"
    yield f"over {BEST['vanilla']['prompts']} of the prompts, each method at its fastest tree"
    yield f"{100 * papers_ratios(published())[0] - 100:.0f} % over EAGLE-2 in τ"
    small = [100 * SAME[name]["tau"] / SAME["eagle2"]["tau"] - 100 for name in ("moa-n1", "moa-n3")]
    yield "N = 1 beats EAGLE-2 by {:.0f} % and N = 3 by {:.0f} %".format(*small)
    right = [
        100 * row_of("link/offline.json", method=name, cut=0.0, kind="tasks")["right"]
        for name in ("moa-n3", "eagle2")
    ]
    yield "{:.0f} % of held-out tasks right and EAGLE-2 {:.0f} %".format(*right)


PAGES = {"README.md": readme, "assets/results/README.md": results_page}


def found(claim: str) -> str:
    """A pattern of a claim that is no part of a longer number."""
    words = r"\s+".join(map(re.escape, claim.split()))
    return rf"(?<![\d.,]){words}(?![\d]|[.,]\d)"


def replaced(text: str, old: list[str], new: list[str]) -> str:
    """The text with new claims in place of the old ones."""
    changes = {}
    for was, now in zip(old, new, strict=True):
        changes |= {one.span(): now for one in re.finditer(found(was), text) if was != now}
    for (start, end), now in sorted(changes.items(), reverse=True):
        text = text[:start] + now + text[end:]
    return text


if __name__ == "__main__":
    code = "import json; from tests import recorded_claims as r\n"
    code += "print(json.dumps({page: [*claims()] for page, claims in r.PAGES.items()}))"
    if len(sys.argv) != 2:
        sys.exit("Say where the old checkout is: python -m tests.recorded_claims OLD")
    was = subprocess.check_output([sys.executable, "-c", code], cwd=sys.argv[1])
    for page, old in json.loads(was).items():
        text = (ROOT / page).read_text(encoding="utf-8")
        (ROOT / page).write_text(replaced(text, old, [*PAGES[page]()]), encoding="utf-8")
