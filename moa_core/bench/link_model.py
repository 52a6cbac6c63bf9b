"""What a run would take over a link that it was not measured over.

What was done and sent is taken from runs with no link between: every draft, every answer's bytes,
how long client and server worked. What a link makes of those bytes is `moa_core.link.delays`, which
also drives the emulated one. One server takes requests in the order in which they arrive. Nothing
is fitted. Not modelled: what the emulated link's own program takes, and setting up a connection.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from moa_core.bench.link_rows import LOCAL, STREAM
from moa_core.link.delays import DOWN, UP, Delays, Line
from moa_core.link.network import LinkSettings
from moa_core.link.wire import SHARE

Asks = Generator[tuple[float, float], float, None]  # (arrival, work) at the server; when it is done
TRIPS = 3  # round trips to set up a session: TCP, WebSocket, hello
GOODBYE = 0.2  # seconds at most to end one
PUSHED = 70  # bytes of a message with one token


@dataclass(frozen=True)
class Cycle:
    """One question and its answer. Seconds and bytes.

    think  the client's work before it; work: the server's; way: of both ends' sockets
    """

    think: float
    work: float
    way: float
    up: int
    down: int


@dataclass(frozen=True)
class Script:
    """One prompt's run as it was without a link.

    streams  answers come unasked: plain API streaming, or a server that hosts the drafter too
    """

    tokens: int
    streams: bool
    prefill: Cycle
    shares: int  # messages with the prompt's server half, after the first token
    share_work: float  # all of them
    share_bytes: int
    observe: float
    cycles: tuple[Cycle, ...]

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> Script:
        """From a recording's `scripts`. A local one becomes a server's that hosts both models."""
        first, cycles = recorded["prefill"], recorded["cycles"]
        local = recorded["link"] == LOCAL
        streams = local or recorded["method"] == STREAM
        parts = zip(*(cycles[name] for name in _CYCLE), strict=True)
        return cls(
            recorded["tokens"],
            streams,
            Cycle(0.0, first["server_us"] / 1e6, first["network_us"] / 1e6, *_first(recorded)),
            0 if streams else -(-recorded["prompt_tokens"] // SHARE),
            first["share_us"] / 1e6,
            first["share_down"],
            first["observe_us"] / 1e6,
            tuple(_cycle(part, local, streams) for part in parts),
        )


_CYCLE = ("draft_us", "other_us", "server_us", "network_us", "up", "down", "gained")


def _first(recorded: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of the prompt and of the first token; where nothing was sent, as much as would be."""
    if recorded["link"] == LOCAL:
        return 80 + 2 * recorded["prompt_tokens"], PUSHED
    return recorded["prefill"]["up"], recorded["prefill"]["down"]


def _cycle(part: Sequence[int], local: bool, streams: bool) -> Cycle:
    draft, other, server, network, up, down, gained = part
    if local:
        return Cycle(0.0, (draft + other + server) / 1e6, 0.0, 0, PUSHED * gained)
    if streams:
        return Cycle(0.0, (server + network) / 1e6, 0.0, 0, down)
    return Cycle((draft + other) / 1e6, server / 1e6, network / 1e6, up, down)


@dataclass(frozen=True)
class Timing:
    """Seconds from the prompt's sending to the first token, and to the last; how many tokens."""

    first: float
    last: float
    tokens: int


def ms_per_token(timings: Sequence[Timing]) -> float:
    """Milliseconds from token to token after the first, over all of them."""
    tokens = sum(timing.tokens - 1 for timing in timings)
    return 1e3 * sum(timing.last - timing.first for timing in timings) / max(1, tokens)


def alone(scripts: Sequence[Script], settings: LinkSettings, seed: int = 0) -> list[Timing]:
    """Each of them by the only client of a server."""
    timings: list[Timing] = []
    for place, script in enumerate(scripts):
        up, down = (Delays(settings, seed, way, place) for way in (UP, DOWN))
        _serve([_session(script, up, down, 0.0, timings)])
    return timings


def together(
    scripts: Sequence[Script], settings: LinkSettings, clients: int, rounds: int, seed: int = 0
) -> list[Timing]:
    """By so many clients at once, each on other prompts over a link of its own.

    The timings of each one's first `rounds` prompts; clients go on until all have done theirs.
    """
    made: list[list[Timing]] = [[] for _ in range(clients)]
    devices = [
        _device(scripts, settings, seed, number, clients, made[number]) for number in range(clients)
    ]
    _serve(devices, lambda: all(len(timings) >= rounds for timings in made))
    return [timing for timings in made for timing in timings[:rounds]]


def _device(
    scripts: Sequence[Script], settings: LinkSettings, seed: int, number: int, clients: int,
    timings: list[Timing],
) -> Asks:  # fmt: skip
    """One client, prompt after prompt, a session each."""
    lines, now = (Line(), Line()), 0.0
    trip = settings.rtt_ms / 1e3
    for turn in count():
        script = scripts[(number + turn * clients) % len(scripts)]
        up, down = (
            Delays(settings, seed + number, way, turn, line)
            for way, line in zip((UP, DOWN), lines, strict=True)
        )
        yield from _session(script, up, down, now, timings)
        now += timings[-1].last + TRIPS * trip + min(trip, GOODBYE)


def _session(
    script: Script, up: Delays, down: Delays, start: float, timings: list[Timing]
) -> Asks:  # fmt: skip
    """One prompt from its sending on; its timing is added at the end."""
    arrived = up(_frame(script.prefill.up, True), start)
    done = yield arrived, script.prefill.work
    first = now = down(_frame(script.prefill.down), done) + script.prefill.way
    for _ in range(script.shares):
        done = yield done, script.share_work / script.shares
        now = down(_frame(script.share_bytes // script.shares), done)
    now = max(first, now) + (0.0 if script.streams else script.observe)
    for cycle in script.cycles:
        asked = done if script.streams else up(_frame(cycle.up, True), now + cycle.think)
        done = yield asked, cycle.work
        now = down(_frame(cycle.down), done) + cycle.way
    timings.append(Timing(first - start, now - start, script.tokens))


def _serve(devices: Sequence[Asks], enough: Any = lambda: False) -> None:
    """One server: requests in order of arrival, one at a time, until no more come or enough."""
    asked = [(*next(device), number) for number, device in enumerate(devices)]
    waiting = [(arrival, number, work) for arrival, work, number in asked]
    heapq.heapify(waiting)
    free = -math.inf
    while waiting and not enough():
        arrival, number, work = heapq.heappop(waiting)
        free = max(free, arrival) + work
        try:
            arrival, work = devices[number].send(free)
        except StopIteration:
            continue
        heapq.heappush(waiting, (arrival, number, work))


def _frame(size: int, masked: bool = False) -> int:
    """Bytes of a WebSocket message of this size: its head, and a client's mask."""
    return size + (2 if size < 126 else 4 if size < 65_536 else 10) + (4 if masked else 0)


def without_spread(settings: LinkSettings) -> LinkSettings:
    """The same link, always at its median: for a smooth curve."""
    return replace(settings, jitter_ms=0.0, p90_ms=0.0, spike_ms=0.0)


def of_method(
    recording: Mapping[str, Any], method: str, link: str, numbers: str
) -> Iterator[Script]:
    """A method's scripts in a recording of kind link. link: direct, or local for both models on
    the server."""
    for recorded in recording.get("scripts", ()):
        same = recorded["method"] == method and recorded["link"] == link
        if same and (numbers == recorded["numbers"] or link == LOCAL):
            yield Script.of(recorded)
