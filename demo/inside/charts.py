"""Charts of a MoA drafter's attention, from weights and token texts.

Rows are tokens in reading order. Texts are escaped, because plotly reads tags in labels.
"""

import html
import math
import re
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from demo.common.charts import ACCEPTED, BONUS, DOTTED, INK, bars, look, told

ROW = 18  # px per token
LONGEST = 14  # characters of a token in a label
COLUMNS = 12  # of a map of layers; more of them are grouped
MOST = 3  # layers or tokens named in a chart's words
SCALE = [(0, "rgba(13, 148, 136, 0.05)"), (1, "rgb(13, 148, 136)")]  # on white and near-black
Rows = Sequence[Sequence[float]]


def layers_read(near: Rows, mean: Sequence[float], tokens: Sequence[str], tli: int) -> go.Figure:
    """LSA: its mean over the whole text as bars, above a heat map of the tokens near the root.

    near    [rows, L] weights of these tokens; rows sum to 1
    mean    [L] over every verified token
    tokens  [rows] their texts
    tli     number of last layers to mark as reused by TLI
    """
    count, groups = len(mean), grouped(len(mean), tli)
    names = [f"{group[0] + 1}–{group[-1] + 1}" if len(group) > 1 else str(group[0] + 1)
             for group in groups]  # fmt: skip
    ticks = [name.replace("–", "–<br>") for name in names]  # narrow enough for a phone
    mean, near = _over(groups, mean), [_over(groups, row) for row in near]
    places, reused = list(range(1, len(groups) + 1)), len(groups) - tli
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=[90, ROW * len(tokens)],
                           vertical_spacing=0.03)  # fmt: skip
    tints = [BONUS if place > reused else ACCEPTED for place in places]
    patterns = ["/" if place > reused else "" for place in places]
    hover = [
        f"layer {name}: {value:.1%} on average" for name, value in zip(names, mean, strict=True)
    ]
    figure.add_trace(bars(places, mean, tints, "", patterns, hover), 1, 1)
    figure.add_trace(_map(near, places, tokens, [f"layer {name}" for name in names]), 2, 1)
    title = f"Which of the target’s {count} layers it reads (LSA)"
    _lay_out(figure, title, "layers of the target", len(tokens), 270)
    figure.update_xaxes(tickvals=places, ticktext=ticks, range=[0.5, len(groups) + 0.5],
                        tickfont_size=11, showgrid=False)  # fmt: skip
    figure.update_xaxes(title_text="", row=1, col=1)
    figure.update_yaxes(tickformat=".0%", nticks=4, title_text="share per layer", row=1, col=1)
    figure.update_yaxes(_ticks(tokens), row=2, col=1)
    figure.add_hline(1 / count, line=DOTTED, row=1, col=1, annotation_text="even share",
                     annotation_position="top left", annotation_font_size=11)  # fmt: skip
    if tli:
        edges = {"x0": reused + 0.5, "x1": len(groups) + 0.5, "y0": 0, "y1": 1}
        line = {"color": BONUS, "width": 2}
        figure.add_shape(type="rect", xref="x", yref="paper", line=line, **edges)
        figure.add_annotation(
            text=f"reused, N = {tli}", showarrow=False, font={"color": BONUS},
            x=len(groups) + 0.5, xref="x", xanchor="right", y=1, yref="paper", yanchor="bottom",
        )  # fmt: skip
    named = _most(mean, [f"layer {name}" for name in names])
    return told(figure, [*named, f"an even spread would be {1 / count:.1%} each"])


def grouped(count: int, tli: int) -> list[range]:
    """Each column's layers: at most COLUMNS of several. The last layer, EAGLE-2's only one, and
    those that are reused stand alone."""
    others = count - max(tli, 1)
    size = math.ceil(others / COLUMNS)
    groups = [range(at, min(at + size, others)) for at in range(0, others, size)]
    return [*groups, *(range(at, at + 1) for at in range(others, count))]


def _over(groups: Sequence[range], values: Sequence[float]) -> list[float]:
    return [fmean(values[at] for at in group) for group in groups]


def text_read(near: Rows, tokens: Sequence[str], listed: int) -> go.Figure:
    """CA: which tokens' memories the root reads; the mean of the heads as bars beside each head.

    near    [H, rows] weights over these tokens; each head's sum to 1
    tokens  [rows] their texts
    listed  number of last rows that set the colours' range; the rows before them stand for all
            earlier text
    """
    heads = list(range(1, len(near) + 1))
    by_token = [list(column) for column in zip(*near, strict=True)]  # [rows, H]
    mean = [sum(row) / len(row) for row in by_token]
    figure = make_subplots(1, 2, shared_yaxes=True, column_widths=[0.4, 0.6],
                           horizontal_spacing=0.03)  # fmt: skip
    hover = [f"{text}: {value:.1%} on average"
             for text, value in zip(_escaped(tokens), mean, strict=True)]  # fmt: skip
    tints = [INK if place < len(tokens) - listed else ACCEPTED for place in range(len(tokens))]
    figure.add_trace(bars(range(len(tokens)), mean, tints, hover=hover, lying=True), 1, 1)
    figure.add_trace(_map(by_token, heads, tokens, [f"head {head}" for head in heads]), 1, 2)
    figure.data[1].zmax = max(map(max, by_token[-listed:]))
    _lay_out(figure, "Which tokens it reads (CA)", "each head", len(tokens), 180)
    figure.update_xaxes(title_text="all heads, mean", tickformat=".0%", nticks=3, row=1, col=1)
    figure.update_xaxes(dtick=1 if len(near) <= 16 else 8, showgrid=False, row=1, col=2,
                        rangemode="normal")  # fmt: skip
    figure.update_yaxes(_ticks(tokens), row=1, col=1)
    figure.update_yaxes(autorange="reversed", showgrid=False, row=1, col=2)
    own = len(tokens) - listed
    names = [f"“{short(token)}”" for token in tokens[own:]]
    return told(figure, _most(mean[own:], names))


def _most(mean: Sequence[float], names: Sequence[str]) -> list[str]:
    order = sorted(range(len(mean)), key=lambda place: -mean[place])[:MOST]
    first, *rest = [f"{names[place]} {mean[place]:.1%}" for place in order]
    return [f"most read on average {first}", *rest]


def _map(
    weights: Rows, columns: Sequence[int], tokens: Sequence[str], names: Sequence[str]
) -> go.Heatmap:
    """A heat map of [rows, columns], named, drawn from nothing to its largest weight."""
    return go.Heatmap(
        z=[list(row) for row in weights], x=list(columns), y=list(range(len(tokens))),
        customdata=[[f"{text}, {one}" for one in names] for text in _escaped(tokens)],
        colorscale=SCALE, zmin=0, zmax=max(map(max, weights)), xgap=1, ygap=1,
        hovertemplate="%{customdata}: %{z:.1%}<extra></extra>",
        colorbar={
            "orientation": "h", "yref": "container", "y": 0.01, "yanchor": "bottom",
            "thickness": 8, "tickformat": ".0%", "tickangle": 0, "nticks": 5, "outlinewidth": 0,
        },
    )  # fmt: skip


def _lay_out(figure: go.Figure, title: str, x: str, rows: int, around: int) -> None:
    plain = look(title, x, "")
    margin = {"l": 112, "r": 8, "t": 64, "b": 116}
    figure.update_layout(plain, height=ROW * rows + around, margin=margin, showlegend=False)
    figure.update_xaxes(plain.xaxis, tickangle=0).update_yaxes(plain.yaxis)


def _ticks(tokens: Sequence[str]) -> dict[str, Any]:
    """A y axis that reads downwards, one token per row."""
    return {
        "tickvals": list(range(len(tokens))), "ticktext": _escaped(tokens),
        "autorange": "reversed", "showgrid": False,
        "tickfont": {"family": "IBM Plex Mono, monospace", "size": 12},
    }  # fmt: skip


def _escaped(tokens: Sequence[str]) -> list[str]:
    return [html.escape(short(token)) for token in tokens]


def short(token: str) -> str:
    """A token as a label, without the space before a word; long ones are cut."""
    shown = (
        re.sub(r"^ (?=\S)", "", token).replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣")
        or "∅"
    )
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
