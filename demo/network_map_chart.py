"""The map of links: where drafting at the client takes less time a token than API streaming."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import plotly.graph_objects as go

from demo.charts import plain_layout, told
from demo.methods import label
from moa_core.bench.link_files import Row, select

ROW = 36  # px
FOUR_TIMES = 2.0  # log2 at which the colours end
SCALE = [(0, "#5eb3aa"), (0.5, "#ece8e3"), (1, "#e8a55f")]  # on white and near-black
ON_SCALE = "#1c1917"
PLACE = ("clients", "down_mbps", "up_mbps", "loss")  # a row of the map
BASE = ("stream", "vanilla")  # what is held against drafting


def latency_map(recording: Row) -> go.Figure:
    """Time a token of the quickest drafter over that of API streaming; a line where they are even.

    recording  of kind link-map; a row is a number of clients, a bandwidth and a share of loss
    """
    cells = select(recording["cells"], where="link")
    trips = sorted({cell["rtt_ms"] for cell in cells})
    places = sorted({tuple(cell[key] for key in PLACE) for cell in cells}, key=_order)
    found = [[_quickest(cells, place, trip) for trip in trips] for place in places]
    ratios = [[ratio for ratio, _ in row] for row in found]
    names = [_named(place) for place in places]
    figure = go.Figure(
        go.Heatmap(
            z=[[max(-FOUR_TIMES, min(FOUR_TIMES, log2(one))) for one in row] for row in ratios],
            zmid=0, zmin=-FOUR_TIMES, zmax=FOUR_TIMES, colorscale=SCALE, showscale=False,
            xgap=1, ygap=1, text=[[f"{one:.2g}×" for one in row] for row in ratios],
            texttemplate="%{text}", textfont={"color": ON_SCALE}, customdata=[
                [(label(best), name, trip) for (_, best), trip in zip(row, trips, strict=True)]
                for row, name in zip(found, names, strict=True)
            ],
            hovertemplate="%{customdata[1]}, %{customdata[2]:g} ms: %{customdata[0]} takes %{text} "
            "the time of API streaming<extra></extra>",
        ),
        plain_layout("Where drafting over a link pays: below 1×", "round trip, ms", ""),
    )  # fmt: skip
    figure.add_trace(_even(ratios))
    figure.update_layout(
        height=100 + ROW * len(places), margin={"l": 8, "r": 8, "t": 48}, showlegend=False
    )
    lines = [name.replace(", ", "<br>") for name in names]
    figure.update_yaxes(_ticks(lines), autorange="reversed", automargin=True)
    figure.update_xaxes(_ticks([f"{trip:g}" for trip in trips]), range=[-0.55, len(trips) - 0.45])
    return told(figure, [_told(name, row, trips) for name, row in zip(names, ratios, strict=True)])


def _order(place: tuple) -> tuple:
    clients, down, up, loss = place
    return clients, -down, -up, loss


def _named(place: tuple) -> str:
    clients, down, up, loss = place
    lost = f" losing {loss:.0%}" if loss else ""
    return f"{clients:g} client{'s' if clients > 1 else ''}{lost}, {down:g}/{up:g} Mbit/s"


def _ticks(names: Sequence[str]) -> dict[str, object]:
    # Numbered axes, named: on an axis of categories no line can follow the cells' edges.
    return {"tickvals": list(range(len(names))), "ticktext": list(names), "showgrid": False}


def _quickest(cells: Sequence[Row], place: tuple, trip: float) -> tuple[float, str]:
    """The best drafter's time over streaming's, and which drafter that is."""
    here = select(cells, rtt_ms=trip, **dict(zip(PLACE, place, strict=True)))
    times = {cell["method"]: cell["ms_per_token"] for cell in here}
    best = min((name for name in times if name not in BASE), key=times.__getitem__)
    return times[best] / times["stream"], best


def _even(ratios: Sequence[Sequence[float]]) -> go.Scatter:
    """The line along the cells' edges, right of the last one in a row where drafting pays."""
    x: list[float] = []
    y: list[float] = []
    for place, row in enumerate(ratios):
        paying = sum(one < 1 for one in row)
        x += [paying - 0.5, paying - 0.5]
        y += [place - 0.5, place + 0.5]
    return go.Scatter(
        x=x, y=y, mode="lines", line={"color": ON_SCALE, "width": 4}, name="even", hoverinfo="skip"
    )


def _told(name: str, row: Sequence[float], trips: Sequence[float]) -> str:
    paying = [trip for trip, one in zip(trips, row, strict=True) if one < 1]
    return f"{name}: pays up to {paying[-1]:g} ms" if paying else f"{name}: never pays"
