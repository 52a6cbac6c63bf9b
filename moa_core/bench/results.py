"""A benchmark's figures and table, from its runs. Loads no models."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, median
from typing import Any

import numpy as np

Record = dict[str, Any]

RESAMPLES = 2_000
LENGTHS = 128, 256, 512, 1024  # of the text so far: where the ranges of `tau_by_context` begin


def figures(
    runs: Sequence[Record], about: dict[str, dict[str, Any]], greedy: bool
) -> dict[str, dict[str, Any]]:
    """Every method's figures, in the order of `about`, which has what the runs lack.

    tau                    tokens gained per target forward after the prefill, bonus included
    tau_spread             95 % of bootstrap resamples of the prompts
    tokens_per_second         of whole runs, prefill included: the median of the repeats
    decode_tokens_per_second  after the prefill, whose own token is left out: the same median
    speedup                   tokens_per_second over plain decoding's
    speedup_spread            95 % of bootstrap resamples of the prompts
    ..._per_second_spread     the lowest and the highest repeat
    acceptance_by_position    share of cycles that accepted at least 1, 2, 3 ... drafts
    tau_by_context            tau of cycles by the length of the text so far, from 0 on and from
                              each of LENGTHS on: [tau, cycles], or None without cycles
    drafts_per_cycle          drafted nodes: the size of the mean tree; None where it is unknown
    prompts, new_tokens, target_calls, seconds  of one pass, the mean of the repeats
    by_prompt              new tokens and seconds of each prompt, the same
    """
    found = {name: _method([r for r in runs if r["method"] == name]) for name in about}
    plain = (found.get("vanilla") or {}).get("tokens_per_second")
    texts = outputs(runs, "vanilla")
    for name, of_method in found.items():
        own = of_method["tokens_per_second"]
        of_method["speedup"] = own / plain if own and plain else None
        of_method["speedup_spread"] = speed_ratio(of_method, found.get("vanilla") or {})
        same = _identical(outputs(runs, name), texts) if greedy else None
        of_method["identical_to_vanilla"] = same
    return {name: {**found[name], **more} for name, more in about.items()}


def _method(runs: Sequence[Record]) -> dict[str, Any]:
    passes = max(1, len({record["repeat"] for record in runs}))
    tokens = sum(record["new_tokens"] for record in runs)
    drafted = [count for record in runs for count in record.get("cycles", {}).get("drafted", ())]
    seconds: dict[str, list[float]] = defaultdict(list)
    for phase, spent in (item for record in runs for item in record["seconds"].items()):
        seconds[phase].append(spent)
    return {
        **_core(runs),
        "prompts": len({record["prompt"] for record in runs}),
        "new_tokens": tokens / passes,
        "target_calls": sum(record["target_calls"] for record in runs) / passes,
        "seconds": {phase: round(sum(spent) / passes, 6) for phase, spent in seconds.items()},
        "drafts_per_cycle": mean(drafted) if drafted else None,
        "tau_by_context": tau_by_context(runs) if _known(runs) else None,
        "by_prompt": [_cost(of, passes) for of in grouped(runs, "prompt").values()],
        "kinds": {kind: _core(mine) for kind, mine in grouped(runs, "kind").items()},
    }


def _cost(runs: Sequence[Record], passes: int) -> list[float]:
    seconds = sum(sum(record["seconds"].values()) for record in runs)
    return [sum(record["new_tokens"] for record in runs) / passes, round(seconds / passes, 4)]


def _core(runs: Sequence[Record]) -> dict[str, Any]:
    by_repeat, by_prompt = grouped(runs, "repeat"), grouped(runs, "prompt")
    gained = [np.sum([_gained(record) for record in of], axis=0) for of in by_prompt.values()]
    return {
        "tau": tau(runs),
        "tau_spread": spread(gained),
        **_middle("tokens_per_second", [pace(each, True) for each in by_repeat.values()]),
        **_middle("decode_tokens_per_second", [pace(each, False) for each in by_repeat.values()]),
        "acceptance_by_position": acceptance_by_position(runs) if _known(runs) else None,
    }


def grouped(runs: Sequence[Record], key: str) -> dict[Any, list[Record]]:
    """Records by the value of a field, in order of first appearance."""
    found: dict[Any, list[Record]] = defaultdict(list)
    for record in runs:
        found[record[key]].append(record)
    return found


def _middle(name: str, speeds: Iterable[float | None]) -> dict[str, Any]:
    found = [each for each in speeds if each is not None]
    return {
        name: median(found) if found else None,
        f"{name}_spread": [min(found), max(found)] if found else None,
    }


def spread(sums: Sequence[Sequence[float]]) -> list[float] | None:
    """The 95 % bootstrap interval of a ratio of sums.

    sums  [items, 2]: each item's share of the numerator and of the denominator
    """
    pairs = np.array(sums, dtype=float)
    if not len(pairs) or not pairs[:, 1].sum():
        return None
    top, bottom = _resampled(pairs)
    return _middle_95(top[bottom > 0] / bottom[bottom > 0])


def speed_ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[float] | None:
    """The 95 % bootstrap interval of the ratio of two methods' speeds, over the same prompts; None
    if those, or their times, are not known."""
    pairs = [np.array(one.get("by_prompt") or (), dtype=float) for one in (ours, theirs)]
    if not len(pairs[0]) or pairs[0].shape != pairs[1].shape:
        return None
    tokens, seconds, others, took = _resampled(np.hstack(pairs))
    known = (seconds > 0) & (others > 0)
    return _middle_95(tokens[known] * took[known] / (seconds[known] * others[known]))


def _resampled(rows: np.ndarray) -> np.ndarray:
    """Sums of the columns [columns, RESAMPLES], of as many rows as there are, drawn at random."""
    picks = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    sums: np.ndarray = rows[picks].sum(1).T
    return sums


def _middle_95(values: np.ndarray) -> list[float] | None:
    return [float(end) for end in np.quantile(values, (0.025, 0.975))] if len(values) else None


def pace(runs: Sequence[Record], whole: bool) -> float | None:
    """Tokens per second of whole runs, or after the prefill; None if no time."""
    phases = (item for record in runs for item in record["seconds"].items())
    seconds = float(sum(spent for phase, spent in phases if whole or phase != "prefill"))
    tokens = sum(record["new_tokens"] if whole else _gained(record)[0] for record in runs)
    return tokens / seconds if seconds > 0 and tokens > 0 else None


def tau(runs: Sequence[Record]) -> float | None:
    """Acceptance length over all cycles of these runs; None if there was none."""
    gained, cycles = (sum(part) for part in zip((0, 0), *map(_gained, runs), strict=True))
    return gained / cycles if cycles else None


def _gained(record: Record) -> tuple[int, int]:
    """Tokens gained after the prefill, and the target forwards that gained them. A peer's first
    forward may give several tokens, all in its prefill's time."""
    if "cycles" in record:
        return sum(record["cycles"]["gained"]), len(record["cycles"]["gained"])
    return record["gained_after_prefill"], record["target_calls"] - 1


def _known(runs: Sequence[Record]) -> bool:
    """Whether the cycles are, which programs of others do not tell."""
    return bool(runs) and all("cycles" in record for record in runs)


def acceptance_by_position(runs: Sequence[Record]) -> list[float] | None:
    """At place k - 1: the share of cycles whose accepted path has at least k drafts; as many places
    as the longest path has. None without cycles."""
    accepted = np.array([gained - 1 for record in runs for gained in record["cycles"]["gained"]])
    if not len(accepted):
        return None
    return [float((accepted >= place).mean()) for place in range(1, int(accepted.max()) + 1)]


def tau_by_context(runs: Sequence[Record]) -> dict[str, list[float] | None]:
    """By where a range of lengths begins."""
    found: list[list[int]] = [[] for _ in (0, *LENGTHS)]
    for record in runs:
        length = record["prompt_tokens"] + 1  # the prefill's own token
        for gained in record["cycles"]["gained"]:
            found[bisect(LENGTHS, length)].append(gained)
            length += gained
    return {
        str(start): [mean(gains), len(gains)] if gains else None
        for start, gains in zip((0, *LENGTHS), found, strict=True)
    }


def outputs(runs: Sequence[Record], name: str) -> dict[tuple[int, int], str]:
    """A method's text hashes by repeat and prompt."""
    return {(r["repeat"], r["prompt"]): r["output"] for r in runs if r["method"] == name}


def _identical(ours: dict[Any, str], plain: dict[Any, str]) -> float | None:
    """Share of prompts with the same text as plain decoding's, in every repeat."""
    shared = [key for key in ours if key in plain]
    different = {key[1] for key in shared if ours[key] != plain[key]}
    prompts = {prompt for _, prompt in shared}
    return 1.0 - len(different) / len(prompts) if prompts else None


def aligned(rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Cells as columns of text: the first ones aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at < words else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table(methods: dict[str, dict[str, Any]]) -> str:
    """The main figures as text, a row per method; tau over all prompts and by kind."""
    kinds = list(dict.fromkeys(kind for found in methods.values() for kind in found["kinds"]))
    head = ["method", "tree", "tokens/s", "low-high", "speed-up", "decoding/s", "tau", *kinds]
    return aligned([head, *(_row(name, found, kinds) for name, found in methods.items())])


def _row(name: str, found: dict[str, Any], kinds: Sequence[str]) -> list[str]:
    ends = found["tokens_per_second_spread"]
    parts = [found, *(found["kinds"].get(kind, {}) for kind in kinds)]
    return [
        name,
        tree_text(found) or "-",
        shown(found["tokens_per_second"], 1),
        "-".join(shown(end, 1) for end in ends) if ends else "-",
        shown(found["speedup"], 2),
        shown(found["decode_tokens_per_second"], 1),
        *(shown(part.get("tau"), 2) for part in parts),
    ]


def tree_text(found: Mapping[str, Any]) -> str | None:
    """A method's tree, such as 5-4-11, or auto with its mean drafts; None without drafts."""
    tree, drafts = found.get("tree"), found.get("drafts_per_cycle")
    if not tree:
        return None
    if tree.get("auto"):
        return f"auto ({drafts:.1f})" if drafts else "auto"
    return "-".join(map(str, tree.values()))
