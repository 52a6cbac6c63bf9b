"""The tables of figures in Markdown files, written from recordings.

    python -m moa_core.bench.tables README.md assets/results/README.md

rewrites what stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from moa_core.bench.link import DIRECT, LOCAL
from moa_core.bench.methods import PEERS
from moa_core.bench.records import ALL, FOLDER, LINK_FOLDER, PHASES, phase_times, read
from moa_core.drafters.names import LOOKUP, VANILLA, label

PRECISIONS = "float32", "int8"
ROWS = {"target": "The target itself", "stream": "Plain, streamed"}
OFFLINE = {"same": "% the target's own", "log_prob": "nats a token"}
ASKED = {ALL: "all", "fact": "facts", "passage": "passages", "label": "labels"}
SHOWN_CUTS = 0.0, 0.25, 0.75
RANGES = {"0": "up to 127", "128": "128 to 255", "256": "256 to 511", "512": "512 to 1023",
          "1024": "from 1024"}  # fmt: skip
SETS = {"mt_bench": "MT-bench", "humaneval": "HumanEval", "gsm8k": "GSM8K", "alpaca": "Alpaca",
        "sum": "summaries", "qa": "questions"}  # fmt: skip
PROCESSORS = {
    "AMX": "amx",
    "AVX512-VNNI": "auto-trees",
    "AVX512-VNNI, again": "programs",
    "AVX2": "avx2",
}  # recordings on each
HOW = "forced", "live"
WORDS = {16_384: "{}-16384", 8_192: "{}-8192", 4_096: "{}"}  # drafters by their words
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n\n?).*?(\n?<!-- end -->)", re.S)

Rows = list[list[str]]
Methods = dict[str, dict[Any, Any]]  # figures by method
Cell = Callable[[Methods, str], str]  # a method's


def recorded(name: str, precision: str = "float32") -> Methods:
    """Of a folder with a summary, or a file."""
    return _file(f"{name}-{precision}")


def _file(name: str) -> Methods:
    summary = FOLDER / name / "summary.json"
    found = read(summary if summary.exists() else FOLDER / f"{name}.json")
    methods: Methods = found["methods"]
    return methods


def by_method(names: Iterable[str], columns: Sequence[tuple[str, Methods, Cell]]) -> Rows:
    """A row for each of these methods; columns: heading, figures, and what is shown of them."""
    rows = [["", *(heading for heading, _, _ in columns)]]
    for name in names:
        cells = (cell(methods, name) for _, methods, cell in columns)
        rows.append([ROWS.get(name) or label(name), *cells])
    return rows


def by_precision(trees: str, cells: Mapping[str, Cell], names: Iterable[str] = ()) -> Rows:
    """A row for each of these methods, else for each drafter; columns for each precision."""
    each = {precision: recorded(trees, precision) for precision in PRECISIONS}
    columns = [
        (f"{heading}, {precision}", methods, cell)
        for precision, methods in each.items()
        for heading, cell in cells.items()
    ]
    return by_method(names or _drafting(trees), columns)


def figure(key: Any, digits: int = 2) -> Cell:
    return lambda methods, name: _number(methods.get(name, {}).get(key), digits)


def interval(methods: Methods, name: str) -> str:
    if name not in methods:
        return ""
    low, high = methods[name]["tau_spread"]
    return f"{methods[name]['tau']:.2f} ({low:.2f} to {high:.2f})"


TAU, SPEED, GAIN = figure("tau"), figure("tokens_per_second", 1), figure("speedup")


def overall() -> Rows:
    """Per precision: tau with one tree for all; speed with automatic trees."""
    columns, names = list[tuple[str, Methods, Cell]](), dict[str, Any]()
    for precision in PRECISIONS:
        speeds = recorded("auto-trees", precision)
        columns += [(f"τ, {precision}", recorded("same-tree", precision), TAU)]
        columns += [("tokens/s", speeds, SPEED), ("× plain", speeds, GAIN)]
        names |= speeds
    return by_method(names, columns)


def same_tree() -> Rows:
    """Per precision: tau with its interval, and speed over plain decoding's. Tau when sampling."""
    rows = by_precision("same-tree", {"τ (95 %)": interval, "× plain": GAIN})
    last = "τ, temperature 1", recorded("sampled"), interval
    sampled = by_method(_drafting("same-tree"), [last])
    return [[*row, tau] for row, (_, tau) in zip(rows, sampled, strict=True)]


def offline() -> Rows:
    """What drafters write once the link is cut, by the share of the answer verified before: the
    share of tokens before the first that the target would not have written, and the target's
    log-probability of a token."""
    found: Methods = {}
    for row in read(LINK_FOLDER / "offline.json")["rows"]:
        if row["kind"] == ALL and row["tokens"]:  # after a cut, a stream is silent
            of = found.setdefault(row["method"], {})
            of["same", row["cut"]] = 100 * row["same"]
            of["log_prob", row["cut"]] = row["log_prob"]
    return by_method(found, [
        (f"{words}, cut after {100 * cut:g} %", found, figure((key, cut)))
        for key, words in OFFLINE.items() for cut in SHOWN_CUTS
    ])  # fmt: skip


def answers() -> Rows:
    """The share of the target's right answers that stay right if the link is cut at their start,
    by kind of question, and halfway."""
    found: Methods = {}
    for row in read(LINK_FOLDER / "answers.json")["rows"]:
        if row["method"] not in ROWS:  # the target's are right, a stream's are missing
            of = found.setdefault(row["method"], {})
            of[row["kind"], row["cut"]] = 100 * row["right"]
    columns = [
        (f"% right, {words}", found, figure((kind, 0.0), 0)) for kind, words in ASKED.items()
    ]
    return by_method(found, [*columns, ("% right, cut halfway", found, figure((ALL, 0.5), 0))])


def delays() -> Rows:
    """Over links with delays: calls of the target, and tokens a second after the first token."""
    recording, found = read(LINK_FOLDER / "delays.json"), Methods()
    for row in recording["rows"]:
        if row["link"] != LOCAL:
            of = found.setdefault(row["method"], {"calls": row["calls_per_100"]})
            of[row["link"]] = 1e3 / row["ms_per_token"]
    links = {DIRECT: "no delay", **{name: name.partition(",")[0] for name in recording["links"]}}
    speeds = [(f"tokens/s, {delay}", found, figure(name, 1)) for name, delay in links.items()]
    return by_method(found, [("calls per 100 tokens", found, figure("calls", 0)), *speeds])


def auto_trees() -> Rows:
    """Per precision: drafts of an average cycle, tau, and speed over plain decoding's."""
    drafts = figure("drafts_per_cycle", 1)
    return by_precision("auto-trees", {"drafts": drafts, "τ": TAU, "× plain": GAIN})


def avx2() -> Rows:
    """The same on a processor without VNNI: tau, whole runs, and speed over plain decoding's."""
    return _elsewhere("avx2")


def amx() -> Rows:
    """The same on a processor with AMX."""
    return _elsewhere("amx")


def processors() -> Rows:
    """With lookup and beside other programs, in int8: whole runs' speed over plain decoding's."""
    names = f"moa-n0{LOOKUP}", f"eagle3{LOOKUP}", "llama-cpp-q8", "openvino"
    columns = [(heading, recorded(name, "int8"), GAIN) for heading, name in PROCESSORS.items()]
    return by_method(names, columns)


def _elsewhere(name: str) -> Rows:
    cells = {"τ": TAU, "tokens/s": SPEED, "× plain": GAIN}
    return by_precision(name, cells, recorded(name) | recorded(name, "int8"))


def programs() -> Rows:
    """Other programs beside drafters here, per precision: whole runs, decoding alone, and speed
    over plain decoding's."""
    names = recorded("programs") | recorded("programs", "int8")
    alone = figure("decode_tokens_per_second", 1)
    cells = {"tokens/s": SPEED, "after the prompt": alone, "× plain": GAIN}
    return by_precision("programs", cells, names)


def tandem() -> Rows:
    """Medusa's and Tandem's tau and speed, beside others'."""
    of = _file("tandem")
    columns = [("τ (95 %)", of, interval), ("tokens/s", of, SPEED), ("× plain", of, GAIN)]
    return by_method(of, columns)


def words() -> Rows:
    """With lookup, by the number of words that drafters may draft: tau, milliseconds of drafting in
    an average cycle, and speed over plain decoding's."""

    def drafting(methods: Methods, name: str) -> str:
        return _number(phase_times(methods[name])["draft"], 1)

    of, rows = _file("words"), [["words"], *([f"{count:,}"] for count in WORDS)]
    for drafter in ("moa-n0", "eagle3"):
        for heading, cell in {"τ": TAU, "draft, ms": drafting, "× plain": GAIN}.items():
            rows[0].append(f"{heading}, {label(drafter)}")
            for row, name in zip(rows[1:], WORDS.values(), strict=True):
                row.append(cell(of, name.format(drafter) + LOOKUP))
    return rows


def chains() -> Rows:
    """Tau of drafts that are one chain of four or of eight tokens, not a tree."""
    each = {size: _file(f"chain-{size}") for size in ("4", "8")}
    columns = [(f"τ (95 %), {size} drafts", of, interval) for size, of in each.items()]
    return by_method((name for name in each["4"] if name != VANILLA), columns)


def cycles() -> Rows:
    """Per precision: milliseconds of an average cycle, by phase, with one tree for all; and tau
    divided by its cost in cycles of plain decoding, which is the gain while decoding."""

    def time(phase: str) -> Cell:
        return lambda methods, name: _number(phase_times(methods[name])[phase], 1)

    def gain(methods: Methods, name: str) -> str:
        mine, plain = (sum(phase_times(methods[one]).values()) for one in (name, VANILLA))
        return _number(methods[name]["tau"] / (mine / plain))

    cells = {phase: time(phase) for phase in PHASES} | {"τ ÷ cost": gain}
    return by_precision("same-tree", cells, [VANILLA, *_drafting("same-tree")])


def positions() -> Rows:
    """Share of cycles that accepted at least this many drafts."""
    found = {
        name: dict(enumerate([*of["acceptance_by_position"], *[0.0] * 5]))
        for name, of in recorded("same-tree").items()
        if name not in PEERS
    }
    columns = [(str(at + 1), found, figure(at)) for at in range(5)]
    return by_method(_drafting("same-tree"), columns)


def forced() -> Rows:
    """Share of a chain's drafts that are right, by place: fed the target's own text, and live."""
    found = Methods()
    for row in read(FOLDER / "forced.json")["rows"]:
        found[row["method"]] = {
            (how, at): share for how in HOW for at, share in enumerate(row[how])
        }
    columns = [(f"{how}, {at + 1}", found, figure((how, at))) for how in HOW for at in range(5)]
    return by_method(found, columns)


def every_prompt() -> Rows:
    """Tau on all prompts of the six question sets, and on those of each set."""
    of = _file("every-prompt")
    by_set: list[tuple[str, Methods, Cell]] = [
        (heading, {name: one["kinds"][kind] for name, one in of.items()}, TAU)
        for kind, heading in SETS.items()
    ]
    drafting = (name for name in of if name != VANILLA)
    return by_method(drafting, [("τ (95 %)", of, interval), *by_set])


def contexts() -> Rows:
    """Tau on the same prompts by the length of the text so far, and the cycles it is from."""

    def tau_from(start: str) -> Cell:
        def cell(methods: Methods, name: str) -> str:
            tau, cycles = methods[name]["tau_by_context"][start]
            return f"{tau:.2f} ({cycles:,})"

        return cell

    of = _file("every-prompt")
    columns = [(heading, of, tau_from(start)) for start, heading in RANGES.items()]
    return by_method((name for name in of if name != VANILLA), columns)


TABLES = {of.__name__: of for of in (
    overall, processors, same_tree, auto_trees, programs, words, amx, avx2, tandem, chains, cycles,
    positions, forced, every_prompt, contexts, delays, offline, answers,
)}  # fmt: skip


def filled(text: str) -> str:
    """A Markdown file's text with its tables written anew."""
    return BLOCK.sub(lambda at: f"{at[1]}{_markdown(TABLES[at[2]]())}{at[3]}", text)


def _drafting(trees: str) -> list[str]:
    return [name for name in recorded(trees, "int8") if name not in {VANILLA, *PEERS}]


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
