"""Charts of a sweep over N, and the paper's beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from demo.common.charts import DOTTED, bars, chart
from demo.common.methods import RIVAL, colour, family, label, tli_of
from demo.common.spread import Spread
from demo.compare.rows import Row
from moa_core.bench.records import Recording, phase_times

PANELS = {  # key of a row: title, axis, digits
    "tau": ("τ", "tokens per target call", 2),
    "draft": ("Draft time", "ms per cycle", 1),
    "rate": ("Speed", "tokens/s, prefill included", 0),
}


def panel(known: Mapping[str, Spread], key: str) -> go.Figure:
    """Upright bars: one figure of each N, with its spread over the repeats; dotted: EAGLE-2's."""
    title, axis, places = PANELS[key]
    rival = known.get(RIVAL)
    drawn = {name: spread for name, spread in known.items() if family(name) == "moa"}
    values = [f"{one.middle:.{places}f}" for one in drawn.values()]
    hover = [f"{label(name)}: {value}<br>from {one.low:.{places}f} to {one.high:.{places}f}"
             for (name, one), value in zip(drawn.items(), values, strict=True)]  # fmt: skip
    made = bars(
        range(len(drawn)), [round(one.middle, 4) for one in drawn.values()],
        [colour(name) for name in drawn], hover=hover, spreads=list(drawn.values()), width=0.62,
    )  # fmt: skip
    shown = f"{title} (dotted: EAGLE-2, {rival.middle:.{places}f})" if rival else title
    words = [f"{label(name)} {value}" for name, value in zip(drawn, values, strict=True)]
    figure = chart(
        [made], shown, "", axis, words, axis, height=250,
        margin={"l": 52, "r": 8, "t": 44, "b": 48},
    )  # fmt: skip
    figure.update_yaxes(title_standoff=6, fixedrange=True)
    ticks = [f"<b>{value}</b><br>N = {tli_of(name)}"
             for name, value in zip(drawn, values, strict=True)]  # fmt: skip
    figure.update_xaxes(
        tickvals=list(range(len(ticks))), ticktext=ticks, showgrid=False, fixedrange=True,
        range=[-0.6, len(ticks) - 0.4],
    )  # fmt: skip
    return figure.add_hline(rival.middle, line=DOTTED) if rival else figure


def measured(rows: Sequence[Row], key: str) -> dict[str, Spread]:
    """A panel's figures by method, of a sweep."""
    return {row.method: spread for row in rows if (spread := _figure(row, key))}


def recorded(recording: Recording, key: str) -> dict[str, Spread]:
    """The same of a recorded benchmark, without its spreads."""
    found = {}
    for method in recording.methods:
        figures = recording.figures(method)
        known = {"rate": figures["tokens_per_second"], **figures, **phase_times(figures)}
        if value := known.get(key):
            found[method] = Spread(value, value, value)
    return found


def _figure(row: Row, key: str) -> Spread | None:
    if key != "draft":
        found: Spread | None = getattr(row, key)
        return found
    if row.cycles < 1:
        return None
    mean = 1000 * row.seconds.get("draft", 0.0) / row.cycles  # of the middle run
    return Spread(mean, mean, mean)
