"""A comparison in numbers: a row per method, for the table, the charts and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from demo.common.charts import PATTERNS, middle
from demo.common.figures import Spread, drafts, recorded_tree
from demo.common.methods import VANILLA, label
from demo.compare.run import Comparison
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import first_difference

UNSTEADY = 1.5  # a method's fastest run over its slowest: beyond it, other work disturbed them


@dataclass(frozen=True)
class Row:
    """One method's measurements.

    trace    the run that texts, times and counts come from: see `middle`
    tau      tokens gained per target forward after the prefill, bonus included; None: no cycle
    rate     tokens per second of the whole run, prefill included
    decoding tokens per second after the prefill; None: no token after the first
    same     whether every repeat wrote what plain decoding wrote; None: not known
    differs  position of the first different token, from 1
    tree     None for vanilla, which drafts nothing
    """

    method: str
    runs: int
    trace: Trace
    tau: Spread | None
    rate: Spread | None
    decoding: Spread | None
    same: bool | None
    differs: int | None
    tree: TreeSettings | None

    @property
    def label(self) -> str:
        return label(self.method)

    @property
    def cycles(self) -> int:
        return self.trace.target_calls - 1

    @property
    def spent(self) -> dict[str, float]:
        """Milliseconds of a mean cycle, by phase."""
        return {phase: 1000 * self.trace.seconds[phase] / self.cycles for phase in PATTERNS}


def rows(comparison: Comparison) -> list[Row]:
    """A row for each method that has a finished run, in the order of the methods: of equally many
    runs of each, since the machine's speed changes."""
    made = {name: found for name, found in comparison.traces.items() if found}
    each = min(map(len, made.values()), default=0)
    return [_row(name, found[:each], comparison) for name, found in made.items()]


def _row(method: str, traces: Sequence[Trace], of: Comparison) -> Row:
    trace, text = middle(traces), of.plain

    def spread(figure: str) -> Spread | None:
        known = [value for each in traces if (value := getattr(each, figure)) is not None]
        value = getattr(trace, figure)
        return None if value is None else Spread(value, min(known), max(known))

    found = [first_difference(each.output_ids, text or ()) for each in of.traces[method]]
    places = [place for place in found if place is not None]
    return Row(
        method=method,
        runs=len(traces),
        trace=trace,
        tau=spread("tau"),
        rate=spread("tokens_per_second"),
        decoding=spread("decode_tokens_per_second"),
        same=None if text is None else not places,
        differs=min(places) + 1 if places else None,
        tree=recorded_tree(trace),
    )


def unsteady(rows: Sequence[Row]) -> Row | None:
    """The method whose fastest and slowest runs are farthest apart, if that is too far."""
    apart = {row.method: row.rate.high / row.rate.low for row in rows if row.rate}
    worst = max(rows, key=lambda row: apart.get(row.method, 1.0), default=None)
    return worst if worst and apart.get(worst.method, 1.0) > UNSTEADY else None


def table(rows: Sequence[Row], greedy: bool = True) -> pd.DataFrame:
    plain = next((row.rate for row in rows if row.method == VANILLA), None)
    return pd.DataFrame([_shown(row, greedy, plain) for row in rows])


def _shown(row: Row, greedy: bool, plain: Spread | None) -> dict[str, str]:
    how, rate = "greedy" if greedy else "sampling", row.rate
    drafted, accepted = drafts(row.trace)
    share = f"{accepted} of {drafted} ({100 * accepted / drafted:.0f} %)" if drafted else "–"
    ranged = f"{rate.middle:.1f} ({rate.low:.1f}–{rate.high:.1f})" if rate else "–"
    return {
        "Method": row.label,
        "τ": f"{row.tau.middle:.2f}" if row.tau else "–",
        "Tokens/s (min–max)": ranged,
        "Decoding alone": f"{row.decoding.middle:.1f}" if row.decoding else "–",
        "Model calls": str(row.trace.target_calls),
        "Guesses accepted": share,
        f"Same text as plain {how}?": _sameness(row),
        "Speed-up over plain": f"{rate.over(plain).middle:.2f} ×" if rate and plain else "–",
        "Tree": _tree(row),
        "Runs": str(row.runs),
    }


def _tree(row: Row) -> str:
    """The tree's shape, or the mean number of drafts of automatic trees."""
    mean = drafts(row.trace)[0] / row.cycles if row.cycles > 0 else 0
    auto = row.tree is not None and row.tree.auto
    return f"auto, {mean:.1f} guesses" if auto else str(row.tree or "–")


def _sameness(row: Row) -> str:
    if row.same is None or (row.same and row.method == VANILLA):
        return "–"
    if row.same:
        return "yes"
    return f"no, from token {row.differs}"
