"""Charts of methods: a bar per method for one figure or a cycle's phases, or a line per method."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from demo.common.charts import DOTTED, INK, PATTERNS, PHASES, bars, beside, chart, line
from demo.common.figures import Spread
from demo.common.methods import LOOKUP, VANILLA, colour, label

ROW, ROWS, AROUND = 27, 210, 100  # pixels: per method, of all at most; above and below them
LETTER = 7.5  # pixels of a label's letter: labels stand right of the axis
TAU = ("Acceptance length (τ, tokens per model call)", "tokens per call", 2)  # title, unit, digits


def shown(name: str) -> str:
    """A method's label; an unknown name is shortened and escaped."""
    if (known := label(name)) != name:
        return known
    plain = " ".join(name.split())
    return escape(plain if len(plain) <= 22 else plain[:21] + "…", quote=False)


def figures(known: Mapping[str, Spread], title: str, unit: str, digits: int) -> go.Figure:
    """Bars with whiskers from the lowest to the highest value, a row a method; dotted: plain
    decoding. A drafter's bar has a striped end: with n-gram lookup in the same tree.

    Right of a row are its figure and the ratio to plain decoding's; where there are striped ends
    the ratios alone, without and with lookup. τ is such a ratio itself.
    """
    joined = {name: one for name, one in known.items()
              if name.endswith(LOOKUP) and name.removesuffix(LOOKUP) in known}  # fmt: skip
    rows = [*dict.fromkeys(name.removesuffix(LOOKUP) if name in joined else name for name in known)]
    plain = known.get(VANILLA)
    base = plain.middle if plain and plain.middle != 1 else 0

    def after(name: str) -> str:
        found = [one.middle for one in (known[name], joined.get(name + LOOKUP)) if one]
        figure = " → ".join(f"{one:.{digits}f}" for one in found)
        if not base:
            return f" {figure}"
        over = " → ".join(f"{one / base:.2f}" for one in found)
        if joined:
            return f" {over} ×"
        return f" {figure}" if name == VANILLA else f" {figure} ({over} ×)"

    names, texts = [shown(name) for name in rows], [after(name) for name in rows]
    most = 1.05 * max((one.high for one in known.values()), default=1)
    alone = [name.removesuffix(LOOKUP) for name in joined]
    drawn = [_lying(names, {name: known[name] for name in rows}, digits, bare=alone)]
    if joined:
        ends = _lying([*map(shown, alone)], joined, digits)
        start = [known[name].middle for name in alone]
        more = [one.middle - at for one, at in zip(joined.values(), start, strict=True)]
        # Below the drafter's own bar, whose line they would hide.
        drawn = [ends.update(base=start, x=more), *drawn, *_key(names[:1])]
    drawn.append(beside([most] * len(names), names, texts))  # a column, which no line runs through
    axis = f"{unit} (× plain)" if base else unit
    words = [_words(name, one, digits) for name, one in known.items()]
    figure = rows_down(drawn, title, axis, words, unit, names)
    if plain:
        figure.add_vline(plain.middle, line=DOTTED, layer="above")
    figure.update_layout(barmode="overlay", margin_r=LETTER * max(map(len, texts), default=0))
    if joined:
        _above(figure)
    return figure.update_xaxes(range=[0, most])


def _lying(
    rows: Sequence[str], known: Mapping[str, Spread], digits: int, bare: Sequence[str] = ()
) -> go.Bar:
    """A bar in each row, striped with n-gram lookup. bare: without whiskers, which two in a row
    would mix."""
    return bars(
        rows, [one.middle for one in known.values()], [colour(name) for name in known],
        pattern=["/" * name.endswith(LOOKUP) for name in known],
        hover=[_words(name, one, digits) for name, one in known.items()],
        spreads=[Spread.of([one.middle]) if name in bare else one for name, one in known.items()],
        lying=True,
    )  # fmt: skip


def _key(row: Sequence[str]) -> list[go.Bar]:
    """Bars without a length: what a legend shows of solid and striped ones."""
    kinds = {"drafter alone": "", "with n-gram lookup": "/"}
    return [bars(row, [0], INK, name, shape, lying=True) for name, shape in kinds.items()]


def _above(figure: go.Figure) -> None:
    """A legend above the rows."""
    figure.update_layout(showlegend=True, margin_t=70, height=figure.layout.height + 22)
    figure.for_each_trace(lambda one: one.update(showlegend=bool(one.name)))


def _words(name: str, one: Spread, digits: int) -> str:
    """A figure, and its range if there is one."""
    fine = max(digits, 1)  # two passes are often close
    ends = f" ({one.low:.{fine}f} to {one.high:.{fine}f})" * one.known
    return f"{shown(name)} {one.middle:.{digits}f}{ends}"


def times(known: Mapping[str, Mapping[str, float]]) -> go.Figure:
    names, spent = [shown(name) for name in known], list(known.values())
    drawn = [
        bars(names, [one[phase] for one in spent], PHASES[phase], phase, PATTERNS[phase],
             f"%{{y}}: {phase} %{{x:.2f}} ms", lying=True)
        for phase in PATTERNS
    ]  # fmt: skip
    whole = [sum(one.values()) for one in spent]
    words = [f"{name} {' '.join(f'{phase} {one[phase]:.2f}' for phase in PATTERNS)}"
             for name, one in zip(names, spent, strict=True)]  # fmt: skip
    drawn.append(beside(whole, names, [f" {one:.1f}" for one in whole]))
    figure = rows_down(drawn, "Time of a cycle", "milliseconds", words, "milliseconds", names)
    _above(figure.update_layout(barmode="stack"))
    return figure.update_xaxes(range=[0, 1.2 * max(whole, default=1)])


def lines(
    rows: Sequence[Mapping[str, Any]], along: str, key: str, title: str, x: str, y: str
) -> go.Figure:
    """A line per method over the key `along`."""
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    drawn = []
    for shape, (method, mine) in enumerate(by_method.items()):
        name, points = label(method), {"symbol": shape, "size": 8}
        drawn.append(
            line([row[along] for row in mine], [row[key] for row in mine], name, colour(method),
                 f"{name}: %{{y:.3g}} at %{{x}}", mode="lines+markers", marker=points)
        )  # fmt: skip
    ends = [f"{one.name} from {one.y[0]:.3g} to {one.y[-1]:.3g}" for one in drawn]
    # The legend is below, where plotly makes room for it: on a phone, each method has a line.
    return chart(
        drawn, title, x, y, ends, y, height=460, margin={"t": 48}, showlegend=True,
        legend={"y": -0.34, "yanchor": "top"}, yaxis={"rangemode": "normal"},
        xaxis={"rangemode": "normal"},
    )  # fmt: skip


def rows_down(
    traces: Iterable[Any], title: str, axis: str, words: Iterable[str], unit: str, names: list[str]
) -> go.Figure:
    figure = chart(
        traces, title, axis, "", words, unit, showlegend=False,
        height=AROUND + min(ROW * len(names), ROWS),
        bargap=0.32, margin={"l": 8, "r": 12, "t": 48, "b": 46},
    )  # fmt: skip
    return figure.update_yaxes(
        type="category", categoryarray=names, autorange="reversed", automargin=True,
        showgrid=False, rangemode="normal", ticksuffix=" ",
    )  # fmt: skip
