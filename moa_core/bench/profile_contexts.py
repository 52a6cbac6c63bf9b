"""What a cycle costs the longer the text is, beside what the longer caches explain."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from moa_core.bench.profile_rates import Rates, measure_rates
from moa_core.bench.profile_runs import Contender, Profile, profile_all
from moa_core.bench.profile_work import Work
from moa_core.target import Target

Row = dict[str, Any]


def random_ids(count: int, target: Target, seed: int = 0) -> list[int]:
    """A text that means nothing, of so many tokens."""
    draw = random.Random(f"{seed}/{count}")
    return [draw.randrange(target.config.vocab_size) for _ in range(count)]


def across_contexts(
    target: Target,
    contenders: Mapping[str, Contender],
    contexts: Sequence[int],
    cycles: int,
    repeats: int,
) -> list[Row]:
    """A row per method and context: the time of a cycle and what it read."""
    rows: dict[str, list[Row]] = {name: [] for name in contenders}
    for context in contexts:
        prompt = random_ids(context, target)
        found = profile_all(target, contenders, [prompt], room(contenders, cycles), repeats, cycles)
        for name, profile in found.items():
            rates = measure_rates(target.device, target.dtype, profile.held)
            first = rows[name][0] if rows[name] else None
            rows[name].append({"method": name, **row(context, profile, rates, first)})
    return [each for of_method in rows.values() for each in of_method]


def room(contenders: Mapping[str, Contender], cycles: int) -> int:
    """New tokens that so many cycles and the first one may gain at most."""
    return (cycles + 2) * (1 + max(each.tree.depth for each in contenders.values()))


def row(context: int, profile: Profile, rates: Rates, first: Row | None) -> Row:
    """One context's figures; what it takes beyond the first one, and what of it must be.

    context  tokens of the prompt
    """
    work = profile.all_work
    found: Row = {
        "context": context,
        "cycle_ms": 1e3 * profile.cycle,
        "read_mb": work.bytes / 1e6,
        "mop": work.ops / 1e6,
        "held_mb": profile.held / 1e6,
        "floor_ms": 1e3 * rates.floor(work),
        "gigabytes_per_second": rates.bandwidth / 1e9,
    }
    if first is not None:
        beyond = Work(0, work.bytes - 1e6 * first["read_mb"], work.ops - 1e6 * first["mop"])
        found["more_ms"] = found["cycle_ms"] - first["cycle_ms"]
        found["explained_ms"] = 1e3 * rates.floor(beyond)
    return found
