"""From a sweep's runs to its numbers, and from these to sentences. Knows no models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from demo.common.figures import tree_of
from demo.common.methods import AUTO, VANILLA, family, label, tli_of
from demo.common.spread import Spread
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings

ALIKE = 0.02  # two speeds closer than this are called the same
SETTLED = 0.7  # share of its later cycles that one N must have for auto N to have settled on it


@dataclass(frozen=True)
class Row:
    """One method's figures. tau: tokens gained per target forward, bonus included.

    draft, verify  milliseconds per cycle
    rate           tokens per second of whole runs, prefill included
    decoding       the same of decoding alone
    choices        N of each cycle of the newest run
    tree           shape of its draft trees; None: nothing is drafted
    """

    method: str
    tau: Spread
    draft: Spread
    verify: Spread
    rate: Spread
    decoding: Spread
    runs: int
    tokens: int
    choices: tuple[int | None, ...]
    tree: TreeSettings | None = None

    @property
    def name(self) -> str:
        return label(self.method)

    @property
    def short(self) -> str:
        """N = 1, Auto N, or the name of what has no N."""
        if self.method == AUTO:
            return "Auto N"
        return f"N = {tli_of(self.method)}" if self.fixed else self.name

    @property
    def fixed(self) -> bool:
        return family(self.method) == "moa"


def rows_of(traces: Mapping[str, Sequence[Trace]]) -> list[Row]:
    """A row for each method that finished a run of at least one cycle."""
    kept = {
        name: [trace for trace in found if trace.tau is not None and trace.decode_tokens_per_second]
        for name, found in traces.items()
    }
    return [_row(name, found) for name, found in kept.items() if found]


def _row(name: str, traces: Sequence[Trace]) -> Row:
    def per_cycle(phase: str) -> Spread:
        return Spread.of([1000 * t.seconds[phase] / len(t.accepted_lengths) for t in traces])

    return Row(
        name,
        Spread.of([trace.tau or 0.0 for trace in traces]),
        per_cycle("draft"),
        per_cycle("verify"),
        Spread.of([trace.tokens_per_second or 0.0 for trace in traces]),
        Spread.of([trace.decode_tokens_per_second or 0.0 for trace in traces]),
        len(traces),
        len(traces[-1].output_ids),
        tuple(traces[-1].choices),
        tree_of(traces[-1]),
    )


def sameness(traces: Mapping[str, Sequence[Trace]]) -> str:
    """Whether all runs wrote one text, in a sentence; "" before there are two."""
    texts = [tuple(trace.output_ids) for found in traces.values() for trace in found]
    if len(texts) < 2:
        return ""
    common, count = Counter(texts).most_common(1)[0]
    if count == len(texts):
        return f"All {count} runs wrote the same {len(common)} tokens."
    return f"{len(texts) - count} of {len(texts)} runs wrote another text than the others."


def sentences(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """What the numbers say, each as (lead, rest): the fastest N, the highest τ, and auto N."""
    fixed = [row for row in rows if row.fixed]
    if not fixed:
        return []
    plain = next((row for row in rows if row.method == VANILLA), None)
    auto = next((row for row in rows if row.method == AUTO), None)
    said = [("Fastest here", _fastest(fixed, plain))]
    if len(fixed) > 1:
        said.append(("Highest τ", _highest(fixed)))
    if auto:
        said.append(("Auto N", _auto(auto, fixed)))
    return said


def _fastest(fixed: Sequence[Row], plain: Row | None) -> str:
    best, *others = sorted(fixed, key=lambda row: -row.rate.middle)
    said = f": {best.short} with {best.rate.middle:.1f} tokens per second"
    if others:
        said += f", {_ahead(best, others[0])} {others[0].short}"
    if plain:
        times = best.rate.middle / plain.rate.middle
        said += f"; {times:.2f} × plain decoding"
        said += ", so every N is slower than plain decoding here" if times < 1 else ""
    return said + "."


def _highest(fixed: Sequence[Row]) -> str:
    first, top = fixed[0], max(fixed, key=lambda row: row.tau.middle)
    said, other = "", top
    if top is first:
        other, said = fixed[-1], " On this prompt more layers did not raise τ."
    low = fixed[-1] if top is first else first
    return (
        f": {top.short} with {top.tau.middle:.2f}, against {low.tau.middle:.2f} at {low.short}."
        f"{said} Drafting takes {other.draft.middle:.1f} ms per cycle at {other.short}, "
        f"{first.draft.middle:.1f} ms at {first.short}."
    )


def _auto(auto: Row, fixed: Sequence[Row]) -> str:
    best = max(fixed, key=lambda row: row.rate.middle)
    said = f" {settled(auto.choices)} and wrote {auto.rate.middle:.1f} tokens per second: "
    if abs(auto.rate.middle / best.rate.middle - 1) < ALIKE:
        apart = "as fast as"
    elif _unsure(auto, best):
        apart = "too close to call against"
    else:
        way = "faster" if auto.rate.middle > best.rate.middle else "slower"
        apart = f"{_percent(auto.rate.middle, best.rate.middle)} % {way} than"
    said += f"{apart} {best.short}, the best fixed N"
    more = auto.draft.middle - best.draft.middle
    if more > 0:
        said += (
            f". Its drafting takes {more:.1f} ms per cycle more than that of {best.short}: it "
            "tries other N too, and each first reads what it has missed"
        )
    return said + "."


def settled(choices: Sequence[int | None]) -> str:
    """What auto N came to, by the later half of its cycles: "settled on N = 0 (9 of ...)"."""
    later = [tli for tli in choices[len(choices) // 2 :] if tli is not None]
    if not later:
        return "had no cycle to choose for"
    [(top, count)] = Counter(later).most_common(1)
    part = f"{count} of its last {len(later)} cycle{'s' if len(later) > 1 else ''}"
    if count >= SETTLED * len(later):
        return f"settled on N = {top} ({part})"
    return f"did not settle on one N (most often N = {top}, in {part})"


def _ahead(best: Row, next_one: Row) -> str:
    """By how much, where the repeats of the two do not overlap."""
    ahead = _percent(best.rate.middle, next_one.rate.middle)
    if ahead == "0":
        return "level with"
    if _unsure(best, next_one):
        return "too close to call against"
    return f"{ahead} % ahead of"


def _unsure(one: Row, other: Row) -> bool:
    return one.runs > 1 and one.rate.overlaps(other.rate)


def _percent(one: float, other: float) -> str:
    """How far two speeds are apart, in percent of the second."""
    return f"{100 * abs(one / other - 1):.0f}"
