"""The tables of figures in Markdown files, written from recordings.

    python -m moa_core.bench.tables README.md assets/results/README.md

rewrites what stands between `<!-- table: NAME -->` and `<!-- end -->`. Recordings are folders of
`assets/results`: `same-tree-*` have one tree for all methods, as `sampled-*` at temperature 1;
`auto-trees-*` have automatic trees, as `avx2-*` on a processor without VNNI. `link/delays.json` is
of links with delays, `link/offline.json` of texts after a cut.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from moa_core.bench.link import DIRECT, LOCAL
from moa_core.bench.methods import PEERS
from moa_core.bench.records import ALL, FOLDER, LINK_FOLDER, PHASES, phase_times, read, select
from moa_core.bench.results import grouped
from moa_core.drafters.names import VANILLA, label

PRECISIONS = "float32", "int8"
ROWS = {"target": "The target itself", "stream": "Plain, streamed"}
OFFLINE = {"same": "% the target's own", "log_prob": "nats a token"}
SHOWN_CUTS = 0.0, 0.25, 0.75
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n\n?).*?(\n?<!-- end -->)", re.S)

Methods = dict[str, dict[str, Any]]


def recorded(trees: str, precision: str) -> Methods:
    methods: Methods = read(FOLDER / f"{trees}-{precision}" / "summary.json")["methods"]
    return methods


def overall() -> list[list[str]]:
    """Per precision: tau with one tree for all; speed with automatic trees."""
    head = [""]
    for precision in PRECISIONS:
        head += [f"τ, {precision}", "tokens/s", "× plain"]
    rows, each = [head], [recorded("same-tree", precision) for precision in PRECISIONS]
    names = dict.fromkeys(name for methods in each for name in methods)
    for name in (name for name in names if name != "llama-cpp-q4"):
        row = [_named(name)]
        for precision in PRECISIONS:
            lengths, speeds = recorded("same-tree", precision), recorded("auto-trees", precision)
            found = speeds.get(name) or lengths.get(name, {})
            tau = lengths.get(name, {}).get("tau")
            row += [_number(tau), _number(found.get("tokens_per_second"), 1)]
            row.append(_number(found.get("speedup")) if name in speeds else "")
        rows.append(row)
    return rows


def by_precision(
    trees: str, columns: Sequence[str], cells: Callable[[dict[str, Any]], list[str]],
    names: Sequence[str] = (),
) -> list[list[str]]:  # fmt: skip
    """A row for each of these methods, else for each drafter; columns for each precision."""
    rows = [["", *(f"{column}, {p}" for p in PRECISIONS for column in columns)]]
    each = [recorded(trees, precision) for precision in PRECISIONS]
    for name in names or _drafting(trees):
        rows.append([_named(name), *chain(*(cells(methods.get(name, {})) for methods in each))])
    return rows


def same_tree() -> list[list[str]]:
    """Per precision: tau with its interval, and speed over plain decoding's."""
    columns = "τ (95 %)", "× plain"
    return by_precision("same-tree", columns, lambda of: [_interval(of), _number(of["speedup"])])


def sampled() -> list[list[str]]:
    """Tau with one tree for all, greedy and at temperature 1."""
    found = recorded("sampled", "float32")
    rows = [["", "τ (95 %), temperature 1", "greedy"]]
    for name in (name for name in _drafting("same-tree") if name in found):
        greedy = _number(recorded("same-tree", "float32")[name]["tau"])
        rows.append([_named(name), _interval(found[name]), greedy])
    return rows


def offline() -> list[list[str]]:
    """What drafters write once the link is cut, by the share of the answer verified before: the
    share of tokens before the first that the target would not have written, and the target's
    log-probability of a token."""
    found = select(read(LINK_FOLDER / "offline.json")["rows"], kind=ALL)
    columns = [(key, cut) for key in ("same", "log_prob") for cut in SHOWN_CUTS]
    rows = [["", *(f"{OFFLINE[key]}, cut after {100 * cut:g} %" for key, cut in columns)]]
    written = [row for row in found if row["tokens"]]  # after a cut, a stream is silent
    for method, mine in grouped(written, "method").items():
        by_cut = {row["cut"]: row for row in mine}
        values = [by_cut[cut][key] for key, cut in columns]
        cells = zip(columns, values, strict=True)
        shown = (100 * v if v and key == "same" else v for (key, _), v in cells)
        rows.append([_named(method), *map(_number, shown)])
    return rows


def delays() -> list[list[str]]:
    """Over links with delays: calls of the target, and tokens a second after the first token."""
    recording = read(LINK_FOLDER / "delays.json")
    found = [row for row in recording["rows"] if row["link"] != LOCAL]
    links = {DIRECT: "no delay", **{name: name.partition(",")[0] for name in recording["links"]}}
    rows = [["", "calls per 100 tokens", *(f"tokens/s, {delay}" for delay in links.values())]]
    for method, mine in grouped(found, "method").items():
        speeds = {row["link"]: 1e3 / row["ms_per_token"] for row in mine}
        row = [_named(method), _number(mine[0]["calls_per_100"], 0)]
        rows.append([*row, *(_number(speeds[name], 1) for name in links)])
    return rows


def auto_trees() -> list[list[str]]:
    """Per precision: drafts of an average cycle, tau, and speed over plain decoding's."""
    columns = "drafts", "τ", "× plain"

    def cells(of: dict[str, Any]) -> list[str]:
        return [_number(of["drafts_per_cycle"], 1), _number(of["tau"]), _number(of["speedup"])]

    return by_precision("auto-trees", columns, cells)


def avx2() -> list[list[str]]:
    """The same on a processor without VNNI: tau, whole runs, and speed over plain decoding's."""
    names = dict.fromkeys(chain(*(recorded("avx2", precision) for precision in PRECISIONS)))

    def cells(of: dict[str, Any]) -> list[str]:
        speed, tau = _number(of.get("tokens_per_second"), 1), _number(of.get("tau"))
        return [tau, speed, _number(of.get("speedup"))]

    return by_precision("avx2", ("τ", "tokens/s", "× plain"), cells, list(names))


def cycles() -> list[list[str]]:
    """Per precision: milliseconds of an average cycle, by phase, with one tree for all; and tau
    divided by its cost in cycles of plain decoding, which is the gain while decoding."""
    rows = [["", *(f"{column}, {p}" for p in PRECISIONS for column in (*PHASES, "τ ÷ cost"))]]
    for name in (VANILLA, *_drafting("same-tree")):
        row = [_named(name)]
        for methods in (recorded("same-tree", precision) for precision in PRECISIONS):
            phases = phase_times(methods[name]).values()
            cost = sum(phases) / sum(phase_times(methods["vanilla"]).values())
            row += [*(_number(ms, 1) for ms in phases), _number(methods[name]["tau"] / cost)]
        rows.append(row)
    return rows


def positions() -> list[list[str]]:
    """Share of cycles that accepted at least so many drafts."""
    rows = [["", *map(str, range(1, 6))]]
    for name in _drafting("same-tree"):
        shares = recorded("same-tree", "float32")[name]["acceptance_by_position"]
        rows.append([_named(name), *(_number(share) for share in (*shares, *[0.0] * 5)[:5])])
    return rows


def contexts() -> list[list[str]]:
    """Tau by the length of the text so far, both precisions together, and the cycles it is from."""
    rows = [["", "up to 127", "128 to 255", "256 to 511", "from 512"]]
    for name in _drafting("same-tree"):
        both = [recorded("same-tree", p)[name]["tau_by_context"] for p in PRECISIONS]
        row = [_named(name)]
        for start in ("0", "128", "256", "512"):
            found = [each[start] for each in both if each.get(start)]
            count = sum(cycles for _, cycles in found)
            tau = sum(tau * cycles for tau, cycles in found) / max(count, 1)
            row.append(f"{tau:.2f} ({count})" if count else "")
        rows.append(row)
    return rows


TABLES = {of.__name__: of for of in (
    overall, same_tree, sampled, auto_trees, avx2, cycles, positions, contexts, delays, offline,
)}  # fmt: skip


def filled(text: str) -> str:
    """A Markdown file's text with its tables written anew."""
    return BLOCK.sub(lambda at: f"{at[1]}{_markdown(TABLES[at[2]]())}{at[3]}", text)


def _drafting(trees: str) -> list[str]:
    return [name for name in recorded(trees, "int8") if name not in {VANILLA, *PEERS}]


def _named(name: str) -> str:
    return ROWS.get(name) or label(name)


def _interval(of: dict[str, Any]) -> str:
    low, high = of["tau_spread"]
    return f"{of['tau']:.2f} ({low:.2f} to {high:.2f})"


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    head, *rest = ("".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in rows)
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rest, ""])


def main(files: Sequence[str]) -> None:
    for file in map(Path, files):
        file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
