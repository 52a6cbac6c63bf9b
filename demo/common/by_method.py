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
SHAPES = (
    "circle", "square", "diamond", "triangle-up", "x", "cross", "star", "triangle-down", "hexagon",
)  # fmt: skip
NAMES = {"stream": "a server that streams", "target": "the target itself"}  # dashed: the baselines
RATE = ("Speed", "tokens per second", 0)


def shown(name: str) -> str:
    """A method's label; an unknown name is shortened and escaped."""
    if (known := label(name)) != name:
        return known
    plain = " ".join(name.split())
    return escape(plain if len(plain) <= 22 else plain[:21] + "…", quote=False)


def figures(known: Mapping[str, Spread], title: str, unit: str, digits: int) -> go.Figure:
    """Bars with whiskers from the lowest to the highest value, striped with n-gram lookup; dotted:
    plain decoding.

    A bar's label has its figure, and its ratio to plain decoding's; τ is such a ratio itself.
    """
    names, spreads = [shown(name) for name in known], list(known.values())
    plain = known.get(VANILLA)
    base = plain and plain.middle != 1 and plain.middle
    values = [f"{one.middle:.{digits}f}" for one in spreads]
    words = [
        f"{name} {value}" + f" ({one.low:.{digits}f} to {one.high:.{digits}f})" * one.known
        for name, value, one in zip(names, values, spreads, strict=True)
    ]
    after = [
        f" {value} ({one.middle / base:.2f} ×)" if base and one is not plain else f" {value}"
        for value, one in zip(values, spreads, strict=True)
    ]
    most = 1.05 * max((one.high for one in spreads), default=1)
    stripes = ["/" * name.endswith(LOOKUP) for name in known]
    drawn = [
        bars(names, [one.middle for one in spreads], [colour(name) for name in known],
             pattern=stripes, hover=words, spreads=spreads, lying=True),
        beside([most] * len(names), names, after),  # a column, which no line runs through
    ]  # fmt: skip
    axis = f"{unit} (× plain)" if base else unit
    figure = rows_down(drawn, title, axis, words, unit, names)
    if plain:
        figure.add_vline(plain.middle, line=DOTTED, layer="above")
    figure.update_layout(margin_r=LETTER * max(map(len, after), default=0))
    return figure.update_xaxes(range=[0, most])


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
    height = figure.layout.height + 22  # a legend above the rows
    figure.update_layout(barmode="stack", showlegend=True, margin_t=70, height=height)
    return figure.update_xaxes(range=[0, 1.2 * max(whole, default=1)])


def lines(
    rows: Sequence[Mapping[str, Any]], along: str, key: str, title: str, x: str, y: str,
    scale: int = 1,
) -> go.Figure:  # fmt: skip
    """A line per method over the key `along`; scale: of x."""
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get(key) is not None:
            by_method.setdefault(row["method"], []).append(row)
    drawn = []
    for at, (method, mine) in enumerate(by_method.items()):
        name, dash = NAMES.get(method) or label(method), "dash" if method in NAMES else "solid"
        drawn.append(
            line([row[along] * scale for row in mine], [row[key] for row in mine],
                 name, INK if method in NAMES else colour(method),
                 f"{name}: %{{y:.3g}} at %{{x}}", mode="lines+markers",
                 line={"dash": dash, "width": 2},
                 marker={"symbol": SHAPES[at % len(SHAPES)], "size": 8})
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
