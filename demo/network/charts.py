"""Figures of a run over a link: pure functions from its trace."""

from __future__ import annotations

from dataclasses import dataclass, field

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from demo.common.charts import ACCEPTED, BONUS, INK, PATTERNS, PHASES, plain_layout, told
from moa_core.decoding.trace import (
    Drafted,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)

OFFLINE = "#8b5cf6"
SHADE = "rgba(139, 92, 246, 0.16)"
UP, DOWN = BONUS, ACCEPTED
NAMES = {"draft": "draft, here", "verify": "server", "network": "network", "other": "other, here"}


@dataclass
class Loss:
    """A stretch without a link. began, ended: seconds since the run began; cycle: the one that was
    on its way, from 1; 0: the prompt."""

    began: float
    cycle: int
    ended: float | None = None
    tokens: int = 0  # written alone


@dataclass
class Course:
    """A run on the clock of whoever watched it, in seconds since it began.

    verified, alone  (second, tokens that are there) after each verification, each offline token
    """

    verified: list[tuple[float, int]] = field(default_factory=list)
    alone: list[tuple[float, int]] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    end: float = 0.0


def course(trace: Trace) -> Course:
    """When what happened. A lost link's silence and absence are part of it."""
    found = Course()
    now = heard = 0.0  # heard: when something last came from the server
    count = cycle = 0
    look = 1 / rate if (rate := trace.about.get("link", {}).get("alone_rate", 0)) else 0.0
    for event in trace.events:
        match event:
            case Prefilled():
                now = heard = max(event.seconds, now)
                count = 1
                found.verified.append((now, count))
            case Drafted():
                cycle = event.cycle + 1
                if cycle == 1 and not event.offline:
                    now = heard = now + _share_seconds(trace, event)
                now += event.seconds
            case LinkDown():
                now = max(now, heard + event.seconds)
                found.losses.append(Loss(now, cycle))
            case OfflineToken():
                now += event.seconds + look
                found.losses[-1].tokens += 1
                found.alone.append((now, count + found.losses[-1].tokens))
            case LinkBack():
                now = heard = max(now, found.losses[-1].began + event.seconds)
                found.losses[-1].ended = now
            case Verified():
                now = heard = now + event.seconds + event.network_seconds + event.other_seconds
                count += len(event.emitted)
                found.verified.append((now, count))
    found.end = now
    return found


def _share_seconds(trace: Trace, first: Drafted) -> float:
    """How long the prompt's share took after the first token; part of the prefill's time."""
    prefilled = sum(event.seconds for event in trace.of(Prefilled))
    return max(trace.seconds.get("prefill", 0.0) - prefilled, 0.0) if first.received else 0.0


def timeline(trace: Trace) -> go.Figure:
    """Milliseconds of each cycle: draft, server, network; shaded where the link was lost."""
    spent = {
        "draft": [1000 * drafted.seconds for drafted, _ in trace.cycles],
        "verify": [1000 * verified.seconds for _, verified in trace.cycles],
        "network": [1000 * verified.network_seconds for _, verified in trace.cycles],
        "other": [1000 * verified.other_seconds for _, verified in trace.cycles],
    }
    cycles = list(range(1, len(trace.cycles) + 1))
    bars = [
        go.Bar(
            name=NAMES[phase], x=cycles, y=values,
            marker={"color": PHASES[phase], "pattern_shape": PATTERNS[phase], "line_width": 0},
            hovertemplate=f"cycle %{{x}}: {NAMES[phase]} %{{y:.2f}} ms<extra></extra>",
        )
        for phase, values in spent.items()
    ]  # fmt: skip
    figure = go.Figure(bars, plain_layout("Where each cycle’s time goes", "cycle", "milliseconds"))
    figure.update_layout(barmode="stack", bargap=0.25)
    right = max(len(cycles), 8) + 0.6
    losses = course(trace).losses
    bands = [(one.cycle - 0.5, one.cycle + 0.5, _lost(one)) for one in losses]
    _shaded(figure, bands, right)
    whole = [sum(each) for each in zip(*spent.values(), strict=True)]
    figure.update_xaxes(range=[0.4, right], showgrid=False)
    figure.update_yaxes(range=_top(whole, bool(bands)))
    means = [
        f"{NAMES[phase]} {sum(values) / max(len(cycles), 1):.1f} ms"
        for phase, values in spent.items()
    ]
    words = [f"{len(cycles)} cycles, on average {means[0]}", *means[1:]]
    return told(figure, [*words, *(f"cycle {one.cycle}: {_lost(one)}" for one in losses)])


def latency(trace: Trace) -> go.Figure:
    """Tokens that are there over seconds: verified ones, and those written while the link was
    lost, with the gap shaded."""
    run = course(trace)
    seconds, tokens = zip(*run.verified, strict=True) if run.verified else ((), ())
    lines = [
        go.Scatter(
            x=[*seconds, run.end], y=[*tokens, *tokens[-1:]], name="verified", mode="lines",
            line={"color": ACCEPTED, "shape": "hv", "width": 2.5},
            hovertemplate="%{y} verified tokens after %{x:.2f} s<extra></extra>",
        )
    ]  # fmt: skip
    if run.alone:
        lines.append(
            go.Scatter(
                x=[second for second, _ in run.alone], y=[count for _, count in run.alone],
                name="written offline", mode="markers",
                marker={"color": OFFLINE, "symbol": "circle-open", "size": 6},
                hovertemplate="%{y} tokens, the newest not verified, after %{x:.2f} s"
                "<extra></extra>",
            )
        )  # fmt: skip
    figure = go.Figure(lines, plain_layout("When each token was there", "seconds", "tokens"))
    bands = [(one.began, run.end if one.ended is None else one.ended, _lost(one))
             for one in run.losses]  # fmt: skip
    right = 1.02 * run.end or 1
    _shaded(figure, bands, right)
    figure.update_layout(showlegend=True)
    figure.update_xaxes(range=[0, right])
    figure.update_yaxes(range=_top([*tokens, *(count for _, count in run.alone)], bool(bands)))
    if not run.verified:
        return told(figure, ["no token"])
    words = [f"the first token after {seconds[0]:.2f} s", f"{tokens[-1]} after {seconds[-1]:.2f} s"]
    return told(figure, [*words, *(f"{_lost(one)} from {one.began:.2f} s" for one in run.losses)])


def traffic(trace: Trace) -> go.Figure:
    """Bytes of each cycle: from the server above, to the server below, each on its own scale."""
    verified = [one for _, one in trace.cycles]
    down, up = [one.received for one in verified], [one.sent for one in verified]
    cycles = list(range(1, len(verified) + 1))
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.12)
    for place, (name, values, tint, pattern) in enumerate(
        (("from the server", down, DOWN, ""), ("to the server", up, UP, "/")), 1
    ):
        bars = go.Bar(
            name=name, x=cycles, y=values,
            marker={"color": tint, "pattern_shape": pattern, "line_width": 0},
            hovertemplate=f"cycle %{{x}}: %{{y}} bytes {name}<extra></extra>",
        )  # fmt: skip
        figure.add_trace(bars, place, 1)
    look = plain_layout("Bytes of each cycle", "", "bytes")
    figure.update_layout(look, height=360, bargap=0.25, showlegend=True)
    figure.update_yaxes(look.yaxis, rangemode="tozero")
    figure.update_xaxes(look.xaxis, showgrid=False, range=[0.4, max(len(cycles), 8) + 0.6])
    figure.update_xaxes(title={"text": "cycle", "font": {"size": 13}}, row=2)
    share = sum(event.received for event in trace.of(Drafted))
    share += sum(event.received for event in trace.of(Prefilled))
    before = sum(event.sent for event in trace.of(Prefilled))
    return told(figure, [
        f"before the first cycle {share} bytes from the server and {before} to it",
        f"then from the server {_mean(down):.0f} a cycle", f"to it {_mean(up):.0f}",
    ])  # fmt: skip


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _shaded(figure: go.Figure, bands: list[tuple[float, float, str]], right: float) -> None:
    """Shade stretches (begin, end, words) of a chart whose axis ends at `right`, and leave room
    above for their words."""
    for begin, end, words in bands:
        left = begin + end < right  # its words go where there is more room
        figure.add_vrect(
            begin, end, fillcolor=SHADE, line={"color": OFFLINE, "width": 1, "dash": "dot"}
        )
        figure.add_annotation(
            text=words, x=end if left else begin, xanchor="left" if left else "right", y=1,
            yref="paper", yanchor="top", showarrow=False, font={"size": 12, "color": INK},
        )  # fmt: skip


def _top(values: list[float], bands: bool) -> list[float]:
    """The range of an axis up to these values, with room for words."""
    return [0, max([1, *values]) * (1.3 if bands else 1.06)]


def _lost(loss: Loss) -> str:
    """A loss in words."""
    alone = f", {loss.tokens} written alone" if loss.tokens else ""
    if loss.ended is None:
        return f"link lost to the end{alone}"
    return f"link lost {loss.ended - loss.began:.1f} s{alone}"


CHARTS = {"timeline": timeline, "latency": latency, "traffic": traffic}
