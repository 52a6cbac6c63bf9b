"""Charts of a run over a link, from its trace."""

from __future__ import annotations

from dataclasses import dataclass, field

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from demo.common.charts import (
    ACCEPTED,
    BONUS,
    INK,
    bars,
    chart,
    line,
    look,
    phase_times,
    phases,
    time_of,
    told,
)
from demo.common.palette import mark
from moa_core.decoding.trace import (
    Drafted,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)

OFFLINE = mark("offline")
SHADE = f"{OFFLINE}29"  # pale
NAMES = {"draft": "draft, here", "verify": "server", "other": "other, here"}


@dataclass
class Loss:
    """A stretch without a link, in seconds since the run began.

    cycle  the one that was on its way, from 1; 0: the prompt
    ended  None: never
    tokens written alone
    """

    began: float
    cycle: int
    ended: float | None = None
    tokens: int = 0

    @property
    def words(self) -> str:
        """For a chart."""
        alone = f", {self.tokens} written alone" if self.tokens else ""
        if self.ended is None:
            return f"link lost to the end{alone}"
        return f"link lost {self.ended - self.began:.1f} s{alone}"


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
    pause = 1 / rate if (rate := trace.about.get("link", {}).get("alone_rate", 0)) else 0.0
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
                now += event.seconds + pause
                found.losses[-1].tokens += 1
                found.alone.append((now, count + found.losses[-1].tokens))
            case LinkBack():
                now = heard = max(now, found.losses[-1].began + event.seconds)
                found.losses[-1].ended = now
            case Verified():
                now = heard = now + time_of(event)
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
    losses = course(trace).losses
    figure = phases(trace, NAMES, [f"cycle {one.cycle}: {one.words}" for one in losses])
    bands = [(one.cycle - 0.5, one.cycle + 0.5, one.words) for one in losses]
    whole = [sum(each) for each in zip(*phase_times(trace).values(), strict=True)]
    return _shaded(figure, bands, figure.layout.xaxis.range[1], whole)


def latency(trace: Trace) -> go.Figure:
    """Tokens that are there over seconds: verified ones, and those written while the link was
    lost, with the gap shaded."""
    run = course(trace)
    seconds = [second for second, _ in run.verified]
    tokens = [count for _, count in run.verified]
    lines = [
        line([*seconds, run.end], [*tokens, *tokens[-1:]], "verified", ACCEPTED,
             "%{y} verified tokens after %{x:.2f} s", line={"shape": "hv"})
    ]  # fmt: skip
    if run.alone:
        lines.append(
            line([second for second, _ in run.alone], [count for _, count in run.alone],
                 "written offline", OFFLINE,
                 "%{y} tokens, the newest not verified, after %{x:.2f} s", mode="markers",
                 marker={"symbol": "circle-open", "size": 6})
        )  # fmt: skip
    words = ["no token"]
    if tokens:
        first = f"the first token after {seconds[0]:.2f} s"
        words = [first, f"{tokens[-1]} after {seconds[-1]:.2f} s"]
        words += [f"{one.words} from {one.began:.2f} s" for one in run.losses]
    title = "When each token was there"
    figure = chart(lines, title, "seconds", "tokens", words, showlegend=True)
    bands = [(one.began, one.ended or run.end, one.words) for one in run.losses]
    right = 1.02 * run.end or 1
    figure.update_xaxes(range=[0, right])
    return _shaded(figure, bands, right, [*tokens, *(count for _, count in run.alone)])


def traffic(trace: Trace) -> go.Figure:
    """Bytes of each cycle: from the server above, to the server below, each on its own scale."""
    verified = [one for _, one in trace.cycles]
    down, up = [one.received for one in verified], [one.sent for one in verified]
    cycles = list(range(1, len(verified) + 1))
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.12)
    ways = (("from the server", down, BONUS, ""), ("to the server", up, mark("drafter"), "/"))
    for place, (name, values, tint, pattern) in enumerate(ways, 1):
        hover = f"cycle %{{x}}: %{{y}} bytes {name}"
        figure.add_trace(bars(cycles, values, tint, name, pattern, hover), place, 1)
    plain = look("Bytes of each cycle", "", "bytes")
    figure.update_layout(plain, height=360, showlegend=True).update_yaxes(plain.yaxis)
    figure.update_xaxes(plain.xaxis, showgrid=False, range=[0.4, max(len(cycles), 8) + 0.6])
    figure.update_xaxes(title={"text": "cycle", "font": {"size": 13}}, row=2)
    share = sum(event.received for event in (*trace.of(Drafted), *trace.of(Prefilled)))
    before = sum(event.sent for event in trace.of(Prefilled))
    means = [sum(values) / max(len(values), 1) for values in (down, up)]
    return told(figure, [
        f"before the first cycle {share} bytes from the server and {before} to it",
        f"then from the server {means[0]:.0f} a cycle", f"to it {means[1]:.0f}",
    ])  # fmt: skip


def _shaded(
    figure: go.Figure, bands: list[tuple[float, float, str]], right: float, values: list[float]
) -> go.Figure:
    """Shade stretches (begin, end, words) of a chart of these values whose x axis ends at `right`,
    with room above for the words."""
    for begin, end, words in bands:
        left = begin + end < right  # its words go where there is more room
        figure.add_vrect(
            begin, end, fillcolor=SHADE, line={"color": OFFLINE, "width": 1, "dash": "dot"}
        )
        figure.add_annotation(
            text=words, x=end if left else begin, xanchor="left" if left else "right", y=1,
            yref="paper", yanchor="top", showarrow=False, font={"size": 12, "color": INK},
        )  # fmt: skip
    return figure.update_yaxes(range=[0, max([1, *values]) * (1.3 if bands else 1.06)])


CHARTS = {"timeline": timeline, "latency": latency, "traffic": traffic}
