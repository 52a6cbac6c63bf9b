"""When bytes that enter a link come out of it: a pure function of settings, seed, bytes and times.

The model, for each direction:

- The line carries one byte after the other at its bandwidth: later bytes wait for earlier ones.
- A packet, PACKET bytes or what is left of a message, then takes half the round trip, give or take
  jitter. What is sent together is delayed together: jitter is drawn for each burst, and again for
  each BLOCK packets of a long one. A burst ends where nothing was left to send for GAP_S.
- A lost packet is a stall, since TCP sends it again: max(round trip, 200 ms) (200 ms is the least
  time after which Linux does so), doubled each time it is lost again.
- On its way to a busy server each burst also waits at the door, exponentially distributed.
- Nothing overtakes what was sent before it in the same stream.

Every draw is a hash of seed, direction, stream and byte position, so it does not depend on how the
bytes were cut into pieces. Not modelled: TCP's slow start and its smaller windows after a loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from statistics import NormalDist
from struct import unpack

from moa_core.errors import UserError
from moa_core.link.network import LinkSettings

UP, DOWN = "up", "down"  # to the server, to the client
DIRECTIONS = (UP, DOWN)
PACKET = 1400  # bytes of the stream in one packet
BLOCK = 64  # packets
GAP_S = 0.001
RESEND_S = 0.2
_NORMAL = NormalDist()


@dataclass
class Line:
    """What the streams of one direction share: the line is busy until then."""

    free_at: float = -math.inf


@dataclass(frozen=True)
class Piece:
    """Some bytes of one packet and the time at which they come out of the link."""

    size: int
    release: float
    stalled: bool  # its packet was lost and is sent again
    first: bool  # the first bytes of their packet


class Delays:
    """One direction of one stream. Call it with (size, now): when does the last of them come out?

    Times are seconds on any clock that starts with the link (spikes are counted from its 0) and
    never runs back. `settings` may be changed at any time, for bytes that come later.
    """

    def __init__(
        self,
        settings: LinkSettings,
        seed: int,
        direction: str,
        stream: int = 0,
        line: Line | None = None,
    ) -> None:
        if direction not in DIRECTIONS:
            raise UserError(f"A link's direction is up or down, not {direction!r}.")
        self.settings = settings
        self.position = 0  # bytes of the stream so far
        self.line = Line() if line is None else line
        self._seed = seed
        self._direction = direction
        self._stream = stream
        self._attempt = 0
        self._left = -math.inf  # when the last byte was on the line
        self._burst = 0  # where the burst began
        self._begin(-math.inf)

    def __call__(self, size: int, now: float) -> float:
        """When `size` bytes that enter the link now have all come out. inf: never, offline."""
        pieces = self.pieces(size, now)
        return pieces[-1].release if pieces else math.inf

    def pieces(self, size: int, now: float) -> list[Piece]:
        """The same, packet by packet. No bytes, as to open or close, are a packet all the same.

        Offline nothing comes out, so there are no pieces, and the bytes do not count as sent.
        """
        settings = self.settings
        if settings.offline:
            return []
        mbps = settings.up_mbps if self._direction == UP else settings.down_mbps
        seconds_per_byte = 8e-6 / mbps
        time = max(now, self.line.free_at)
        if size == 0 or now > self._left + GAP_S:
            self._start_burst()
        pieces = [] if size else [self._piece(0, time, True)]
        while size > 0:
            within = (self.position - self._burst) % PACKET
            if within == 0:
                self._start_packet()
            part = min(size, PACKET - within)
            size -= part
            self.position += part
            time += part * seconds_per_byte
            self._left = self.line.free_at = time
            pieces.append(self._piece(part, time, within == 0))
        return pieces

    def resend(self, position: int, now: float) -> None:
        """What came after the first `position` bytes was lost on the way; it will be given again.

        The line, which others may share, is the caller's to free.
        """
        self.position = position
        self._attempt += 1
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._last = now  # nothing comes out before
        self._left, self._burst = -math.inf, self.position
        self._shift = self._wait = self._stall = 0.0  # of the packets now being sent

    def _piece(self, size: int, time: float, first: bool) -> Piece:
        extra = self._shift + self._wait + self._stall
        self._last = max(self._last, time + extra + _spike(self.settings, self._seed, time))
        return Piece(size, self._last, self._stall > 0, first)

    def _start_burst(self) -> None:
        self._burst = self.position
        overload = self.settings.overload_ms if self._direction == UP else 0.0
        self._wait = -math.log(self._draw("wait")) * overload / 1000 if overload else 0.0
        self._start_packet()

    def _start_packet(self) -> None:
        settings = self.settings
        if (self.position - self._burst) % (BLOCK * PACKET) == 0:
            self._shift = _one_way(settings, self._draw("jitter") if _spread(settings) else 0.5)
        times = 0
        if settings.loss:
            times = int(math.log(self._draw("loss")) / math.log(settings.loss))
        self._stall = max(settings.rtt_ms / 1000, RESEND_S) * (2 ** min(times, 6) - 1)

    def _draw(self, what: str) -> float:
        """A number within (0, 1)."""
        key = f"{self._seed}/{self._direction}/{self._stream}/{self._attempt}/{self.position}/"
        (number,) = unpack("<Q", blake2b((key + what).encode(), digest_size=8).digest())
        return float(((number >> 12) + 0.5) / 2**52)


def delays(settings: LinkSettings, seed: int, direction: str) -> Delays:
    """A link of its own for one stream of bytes in one direction, "up" or "down"."""
    return Delays(settings, seed, direction)


def _spread(settings: LinkSettings) -> bool:
    return settings.jitter_ms > 0 or settings.p90_ms > 0


def _one_way(settings: LinkSettings, draw: float) -> float:
    """Seconds from one end to the other. Both ways together: the settings' median and spread."""
    if settings.p90_ms:
        location, scale = log_normal(settings.rtt_ms, settings.p90_ms)
        return math.exp(location + scale * _NORMAL.inv_cdf(draw)) / 1000
    shift = settings.jitter_ms / math.sqrt(2) * _NORMAL.inv_cdf(draw)
    return max(0.0, settings.rtt_ms / 2 + shift) / 1000


def _spike(settings: LinkSettings, seed: int, time: float) -> float:
    """Half of a handover's extra round trip; where in the period it begins hangs on the seed."""
    if not settings.spike_ms:
        return 0.0
    (number,) = unpack("<I", blake2b(f"{seed}/spike".encode(), digest_size=4).digest())
    phase = (time + number / 2**32 * settings.spike_every_s) % settings.spike_every_s
    return settings.spike_ms / 2000 * max(0.0, 1 - float(phase) / settings.spike_s)


@lru_cache
def log_normal(median: float, p90: float) -> tuple[float, float]:
    """Location and scale of two equal log-normals whose sum has this median and 90th percentile.

    Found by halving the scale's range, since the sum of two log-normals has no closed form.
    """
    low, high = 0.0, 10.0
    while high - low > 1e-6:
        scale = (low + high) / 2
        if _quantile(scale, 0.9) / _quantile(scale, 0.5) < p90 / median:
            low = scale
        else:
            high = scale
    return math.log(median / _quantile(low, 0.5)), low


def _quantile(scale: float, share: float) -> float:
    """Quantile of the sum of two log-normals of location 0."""
    steps = 200
    first = [math.exp(scale * _NORMAL.inv_cdf((i + 0.5) / steps)) for i in range(steps)]
    low, high = 0.0, 2 * math.exp(scale * 5)
    for _ in range(50):
        middle = (low + high) / 2
        below = sum(
            _NORMAL.cdf(math.log(middle - x) / max(scale, 1e-9)) for x in first if x < middle
        )
        low, high = (middle, high) if below < share * steps else (low, middle)
    return (low + high) / 2
