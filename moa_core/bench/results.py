"""From the runs of a benchmark to its figures. Knows no models: only numbers that were recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, median
from typing import Any

import numpy as np

Record = dict[str, Any]

PLACE = 64  # new tokens in a bin of `tau_by_place`
RESAMPLES = 2_000


def figures(
    runs: Sequence[Record], about: dict[str, dict[str, Any]], greedy: bool
) -> dict[str, dict[str, Any]]:
    """Every method's figures, in the order of `about`, which holds what runs do not say of it.

    tau                    tokens gained per target forward after the prefill, bonus included
    tau_spread             95 % of bootstrap resamples of the prompts
    tokens_per_second         of whole runs, prefill included: the median of the repeats
    decode_tokens_per_second  after the prefill, whose own token is left out: the same median
    speedup                   tokens_per_second over plain decoding's
    ..._per_second_spread     the lowest and the highest repeat
    acceptance_by_position    share of cycles that accepted at least so many drafts
    drafts_per_cycle          drafted nodes: the size of the mean tree; None where it is unknown
    prompts, new_tokens, target_calls, seconds, tau_by_place  of one pass, the mean of the repeats
    """
    found = {name: _method([r for r in runs if r["method"] == name]) for name in about}
    plain = (found.get("vanilla") or {}).get("tokens_per_second")
    outputs = _outputs(runs, "vanilla")
    for name, of_method in found.items():
        own = of_method["tokens_per_second"]
        of_method["speedup"] = own / plain if own and plain else None
        same = _identical(_outputs(runs, name), outputs) if greedy else None
        of_method["identical_to_vanilla"] = same
    return {name: {**found[name], **more} for name, more in about.items()}


def _method(runs: Sequence[Record]) -> dict[str, Any]:
    passes = max(1, len({record["repeat"] for record in runs}))
    joules = [record["joules"] for record in runs]
    tokens = sum(record["new_tokens"] for record in runs)
    grams = [sum(part) for part in zip(*(record["grams"] for record in runs), strict=True)]
    return {
        **_core(runs),
        "prompts": len({record["prompt"] for record in runs}),
        "new_tokens": _whole(tokens / passes),
        "target_calls": _whole(sum(record["target_calls"] for record in runs) / passes),
        "seconds": _seconds(runs, passes),
        "tau_by_place": _by_place(runs, passes),
        "drafts_per_cycle": _drafts(runs),
        "repeats_8gram": grams[0] / grams[1] if grams and grams[1] else None,
        "joules_per_token": None if None in joules or not tokens else sum(joules) / tokens,
        "kinds": {
            kind: _core([record for record in runs if record["kind"] == kind])
            for kind in dict.fromkeys(record["kind"] for record in runs)
        },
    }


def _core(runs: Sequence[Record]) -> dict[str, Any]:
    """The figures that are given for all prompts and for each kind."""
    by_repeat: dict[int, list[Record]] = defaultdict(list)
    for record in runs:
        by_repeat[record["repeat"]].append(record)
    return {
        "tau": tau(runs),
        "tau_spread": _tau_spread(runs),
        **_middle("tokens_per_second", map(speed, by_repeat.values())),
        **_middle("decode_tokens_per_second", map(decode_speed, by_repeat.values())),
        "acceptance_by_position": acceptance_by_position(runs),
    }


def _middle(name: str, speeds: Iterable[float | None]) -> dict[str, Any]:
    found = [each for each in speeds if each is not None]
    return {
        name: median(found) if found else None,
        f"{name}_spread": [min(found), max(found)] if found else None,
    }


def speed(runs: Sequence[Record]) -> float | None:
    """Tokens per second of whole runs, prefill included; None if no time."""
    seconds = sum(sum(record["seconds"].values()) for record in runs)
    tokens = sum(record["new_tokens"] for record in runs)
    return tokens / seconds if seconds > 0 and tokens > 0 else None


def decode_speed(runs: Sequence[Record]) -> float | None:
    """Tokens per second after the prefill, whose own first token is left out; None if no time."""
    seconds = sum(_decode_seconds(record) for record in runs)
    # A peer's first forward may give several tokens, all of them in its prefill's time.
    tokens = sum(record.get("gained_after_prefill", record["new_tokens"] - 1) for record in runs)
    return tokens / seconds if seconds > 0 and tokens > 0 else None


def tau(runs: Sequence[Record]) -> float | None:
    """Acceptance length over all cycles of these runs; None if there was none."""
    gained, cycles = (sum(part) for part in zip((0, 0), *map(_gained, runs), strict=True))
    return gained / cycles if cycles else None


def acceptance_by_position(runs: Sequence[Record]) -> list[float] | None:
    """At place k - 1: the share of cycles whose accepted path has at least k drafts.

    None where cycles are unknown; as many places as the longest path has.
    """
    if not runs or any("cycles" not in record for record in runs):
        return None
    accepted = np.array([gained - 1 for record in runs for gained in record["cycles"]["gained"]])
    if not len(accepted):
        return None
    return [float((accepted >= place).mean()) for place in range(1, int(accepted.max()) + 1)]


def tree_text(tree: Mapping[str, Any] | None, drafts: float | None = None) -> str:
    """A tree as results keep it: 5-4-12, or auto with the drafts of its mean tree."""
    if tree and tree.get("auto"):
        return "auto" if drafts is None else f"auto ({drafts:.1f})"
    return "-".join(map(str, tree.values())) if tree else ""


def _drafts(runs: Sequence[Record]) -> float | None:
    """Drafted nodes of a mean cycle; None where cycles are unknown, or there are none."""
    drafted = [count for record in runs for count in record.get("cycles", {}).get("drafted", ())]
    return mean(drafted) if drafted else None


def _gained(record: Record) -> tuple[int, int]:
    """Tokens gained after the prefill, and the target forwards that gained them."""
    if "cycles" in record:
        return sum(record["cycles"]["gained"]), len(record["cycles"]["gained"])
    return record["gained_after_prefill"], record["target_calls"] - 1


def _tau_spread(runs: Sequence[Record]) -> list[float] | None:
    """The middle 95 % of tau over random choices of as many prompts, with repetition."""
    by_prompt: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for record in runs:
        by_prompt[record["prompt"]].append(_gained(record))
    sums = np.array([np.sum(found, axis=0) for found in by_prompt.values()], dtype=float)
    if not len(sums) or not sums[:, 1].sum():
        return None
    picks = np.random.default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))
    gained, cycles = sums[picks].sum(1).T
    low, high = np.quantile(gained[cycles > 0] / cycles[cycles > 0], (0.025, 0.975))
    return [float(low), float(high)]


def _by_place(runs: Sequence[Record], passes: int) -> list[list[float]] | None:
    """[start of the bin in new tokens, mean gain, cycles in one pass] for each bin."""
    if not runs or any("cycles" not in record for record in runs):
        return None
    bins: dict[int, list[int]] = defaultdict(list)
    for record in runs:
        place = 1  # the prefill's token is there
        for gained in record["cycles"]["gained"]:
            bins[place // PLACE].append(gained)
            place += gained
    return [[at * PLACE, mean(bins[at]), _whole(len(bins[at]) / passes)] for at in sorted(bins)]


def _seconds(runs: Sequence[Record], passes: int) -> dict[str, float]:
    phases = dict.fromkeys(phase for record in runs for phase in record["seconds"])
    return {
        phase: round(sum(record["seconds"].get(phase, 0.0) for record in runs) / passes, 6)
        for phase in phases
    }


def _decode_seconds(record: Record) -> float:
    return float(sum(spent for phase, spent in record["seconds"].items() if phase != "prefill"))


def _outputs(runs: Sequence[Record], name: str) -> dict[tuple[int, int], str]:
    return {(r["repeat"], r["prompt"]): r["output"] for r in runs if r["method"] == name}


def _identical(ours: dict[Any, str], plain: dict[Any, str]) -> float | None:
    """Share of prompts with the same text as plain decoding's, in every repeat."""
    shared = [key for key in ours if key in plain]
    different = {
        prompt for repeat, prompt in shared if ours[repeat, prompt] != plain[repeat, prompt]
    }
    prompts = {prompt for _, prompt in shared}
    return 1.0 - len(different) / len(prompts) if prompts else None


def _whole(value: float) -> float:
    """A mean of counts: a whole number where the repeats agree."""
    return int(value) if value == int(value) else round(value, 2)


def rounded(value: Any, digits: int = 6) -> Any:
    """A tree of results with its floats cut to so many digits after the point."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    return [rounded(item, digits) for item in value] if isinstance(value, list) else value


def by_kind(runs: Sequence[Record], of: Callable[[Sequence[Record]], Any]) -> dict[str, Any]:
    """A figure of all runs (under "all") and of each kind of prompt."""
    kinds = dict.fromkeys(record["kind"] for record in runs)
    parts = {kind: of([record for record in runs if record["kind"] == kind]) for kind in kinds}
    return {"all": of(runs), **parts}
