"""An emulated link between a client of this process and its server: delays, losses, cuts.

`LinkSettings` say what it is like, with presets from measurements. `Link` makes it so.

It wraps the client's real connection and holds each message back, both ways:

- The line carries one message after the other at its bandwidth.
- A message then takes half the round trip, give or take jitter, and never overtakes another.
- A lost packet (PACKET bytes of a message) is a stall, since TCP sends it again: it waits for
  max(round trip, RESEND), doubled each time that it is lost again.
- During a cut nothing passes either way, and new connections hang. After `restore` everything that
  was on its way comes through in order, half a round trip later.

All draws follow from the seed, the connection's number and the direction. Not modelled: TCP's slow
start, packets of one message that arrive at different times, bytes of frames and headers.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from socket import SHUT_RDWR
from time import monotonic
from types import MappingProxyType
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from moa_core.errors import UserError

UP, DOWN = "up", "down"  # to the server, to the client
PACKET = 1400  # bytes
RESEND = 0.2  # seconds: the least after which Linux sends a packet again
HANDSHAKES = 2  # TCP's and WebSocket's


@dataclass(frozen=True)
class LinkSettings:
    """A link, as a client sees it. Figures that cannot be a link's raise UserError.

    rtt_ms: median round trip of a small message, half of it each way.
    jitter_ms: standard deviation of the round trip (normal draws; none takes less than no time).
    down_mbps, up_mbps: 10^6 bits per second to and from the client.
    loss: fraction of packets lost, each way. 1: nothing passes, as with no network at all.
    name, source: what to call it; where its figures come from, in a sentence.
    """

    rtt_ms: float = 0.0
    jitter_ms: float = 0.0
    down_mbps: float = 1000.0
    up_mbps: float = 1000.0
    loss: float = 0.0
    name: str = "custom"
    source: str = "Figures of one's own choice."

    def __post_init__(self) -> None:
        for key, (field, low, high) in _FIELDS.items():
            value = getattr(self, field)
            known = isinstance(value, int | float) and not isinstance(value, bool)
            if not known or not low <= value <= high:  # NaN is not within
                raise UserError(_NO_NUMBER.format(key=key, low=low, high=high, value=value))

    @property
    def offline(self) -> bool:
        return self.loss >= 1

    @property
    def spec(self) -> str:
        """The settings as `link` reads them, without name and source."""
        if self.offline:
            return "loss=1"
        values = {key: getattr(self, field) for key, (field, _, _) in _FIELDS.items()}
        shown = [key for key in values if values[key] or key not in ("jitter", "loss")]
        return ",".join(f"{key}={values[key]:.15g}" for key in shown)

    def __str__(self) -> str:
        if self.offline:
            return f"{self.name}: nothing passes"
        text = f"{self.name}: round trip {self.rtt_ms:g} ms, ± {self.jitter_ms:g}"
        text += f"; {self.down_mbps:g} Mbit/s down, {self.up_mbps:g} up"
        return text + (f"; {self.loss * 100:g} % of packets lost" if self.loss else "")


_FIELDS = {  # key in a custom link: field, least, greatest
    "rtt": ("rtt_ms", 0, 10_000), "jitter": ("jitter_ms", 0, 5_000),
    "down": ("down_mbps", 0.001, 100_000), "up": ("up_mbps", 0.001, 100_000),
    "loss": ("loss", 0, 1),
}  # fmt: skip


_NO_NUMBER = "{key} of a link must be a number from {low:g} to {high:g}, not {value}."
_PRESETS = (
    LinkSettings(
        rtt_ms=1, jitter_ms=0.1, down_mbps=1000, up_mbps=1000, name="lan",
        source="Wired LAN: gigabit by definition; 1 ms and its jitter are our choice (pings within "
        "a room show as under 1 ms, Tom's Hardware).",
    ),
    LinkSettings(
        rtt_ms=5, jitter_ms=3, down_mbps=30, up_mbps=15, loss=0.002, name="wifi",
        source="Home Wi-Fi: 30/15 Mbit/s from Firefox's throttling profile, 0.2 % loss from "
        "comcast's \"WIFI (good)\"; 5 ms and its jitter are our choice.",
    ),
    LinkSettings(
        rtt_ms=44, jitter_ms=10, down_mbps=309, up_mbps=13.6, name="5g",
        source="5G mid-band, US: T-Mobile in the second half of 2025, Ookla (RCR Wireless, "
        "3 February 2026); jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=19, jitter_ms=5, down_mbps=130, up_mbps=14.7, name="5g-uk",
        source="5G, UK: speeds of 2022-23, latency of 2023-24 between operators' 16.3 and 21.4 ms, "
        "Ofcom; jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=21, jitter_ms=8, down_mbps=29.5, up_mbps=7.6, name="4g-uk",
        source="4G, UK: speeds of 2022-23, latency of 2023-24 between operators' 18.3 and 23.7 ms, "
        "Ofcom; jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=60, jitter_ms=15, down_mbps=9, up_mbps=1.5, name="4g",
        source="4G, cautious: targets of Chrome DevTools' \"Fast 4G\"; 60 ms agrees with "
        "Opensignal's 44-66 ms (US states, early 2019); jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=150, jitter_ms=30, down_mbps=1.6, up_mbps=0.75, name="slow-4g",
        source="Slow 4G: Lighthouse's and Chrome's \"Slow 4G\", which is WebPageTest's "
        "\"3G Fast\"; jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=48, jitter_ms=6.7, down_mbps=118, up_mbps=17, loss=0.015, name="satellite",
        source="Starlink-class: speeds from Ookla 2025; round trip within 45-50 ms (Ookla 2025, "
        "UCLouvain 2022); jitter 6.7 ms and 1-2 % loss from Huston 2024; the values within these "
        "ranges are our choice. Its jumps of 30-50 ms every 15 s are not emulated.",
    ),
    LinkSettings(
        loss=1, name="offline",
        source="Offline: nothing passes, as Chrome DevTools' \"Offline\".",
    ),
)  # fmt: skip

PRESETS = MappingProxyType({settings.name: settings for settings in _PRESETS})
DEFAULT = "4g"
_ALIASES = {"home-wifi": "wifi", "5g-us": "5g", "starlink": "satellite", "none": "offline"}


def link(text: str | LinkSettings) -> LinkSettings:
    """Settings from a preset's name, `rtt=60,jitter=15,down=9`, or both: `4g,loss=0.01`.

    Units: ms, Mbit/s, fraction of packets. What is not named is as in the preset, or else the
    default of LinkSettings. UserError, with the names to choose from, for anything else.
    """
    if isinstance(text, LinkSettings):
        return text
    parts = [part.strip() for part in text.split(",")]
    name, base = "", LinkSettings()
    if "=" not in parts[0]:
        name = parts.pop(0).lower().replace("_", "-").replace(" ", "-")
        name = _ALIASES.get(name, name)
        if name not in PRESETS:
            raise UserError(f"No link is called {text!r}. {_CHOICES}")
        base = PRESETS[name]
    changes: dict[str, Any] = {}
    for part in parts:
        key, _, value = (piece.strip().lower() for piece in part.partition("="))
        if key not in _FIELDS:
            raise UserError(f"{part!r} in the link {text!r} is not known. {_CHOICES}")
        field, low, high = _FIELDS[key]
        if field in changes:
            raise UserError(f"{key} stands twice in the link {text!r}.")
        try:
            changes[field] = float(value)
        except ValueError:
            wrong = _NO_NUMBER.format(key=key, low=low, high=high, value=repr(value))
            raise UserError(wrong) from None
    if name and changes:
        by_hand = ",".join(parts)
        changes["name"] = f"{name},{by_hand}"
        changes["source"] = f"{base.source} Changed by hand: {by_hand}."
    return replace(base, **changes) if changes else base


_CHOICES = (
    f"Choose one of {', '.join(PRESETS)}, or describe one: rtt=60,jitter=15,down=9,up=1.5,"
    f"loss=0.01 (keys: {', '.join(_FIELDS)})."
)


class Link:
    """A link that connections share: `with Link(...) as link: Remote(..., link=link)`."""

    def __init__(self, settings: LinkSettings, seed: int = 0) -> None:
        self.settings = settings
        self.changed = threading.Condition()
        self.is_cut = settings.loss >= 1
        self.closed = False
        self.up_since = -math.inf  # when what waited during the last cut comes through
        self._seed = seed
        self._connections = 0
        self._free_at = {UP: -math.inf, DOWN: -math.inf}  # the line is busy until then
        self._open: list[Delayed] = []

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self) -> None:
        with self.changed:
            self.is_cut = True

    def restore(self) -> None:
        """The link is back, unless it is one through which nothing ever passes."""
        with self.changed:
            self.is_cut = self.settings.loss >= 1
            self.up_since = monotonic() + self.settings.rtt_ms / 2000
            self._free_at = {UP: -math.inf, DOWN: -math.inf}
            self.changed.notify_all()

    def close(self) -> None:
        """End every connection: with a goodbye, unless nothing passes."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        for each in self._open:
            each.end(goodbye=not self.is_cut)

    def connect(self, open_socket: Callable[[float], ClientConnection], within: float) -> Delayed:
        """A connection over this link. TimeoutError if it takes longer than `within` seconds.

        open_socket  makes the real one, within the seconds it is given
        """
        end = monotonic() + within
        with self.changed:
            number, self._connections = self._connections, self._connections + 1
        ways = (_Way(self, UP, number), _Way(self, DOWN, number))
        for way in ways * HANDSHAKES:
            way.put(b"")
            way.get(end)
        made = Delayed(open_socket(max(end - monotonic(), 0.01)), *ways)
        self._open.append(made)
        if self.closed:
            made.end(goodbye=False)
        return made

    def release(self, direction: str, size: int, draw: Random) -> float:
        """When a message of this size, sent now, comes out."""
        settings, now = self.settings, monotonic()
        mbps = settings.up_mbps if direction == UP else settings.down_mbps
        sent = max(now, self._free_at[direction]) + size * 8e-6 / mbps
        self._free_at[direction] = sent
        trip = settings.rtt_ms / 1000
        shift = draw.gauss(0, settings.jitter_ms / 1000 / math.sqrt(2))  # two make a round trip
        lost = 0  # the most often that one of its packets is lost in a row
        for _ in range(max(1, -(-size // PACKET)) if 0 < settings.loss < 1 else 0):
            times = math.log(1 - draw.random()) / math.log(settings.loss)
            lost = max(lost, int(min(times, 6)))
        return sent + max(0.0, trip / 2 + shift) + max(trip, RESEND) * float(2**lost - 1)


class _Way:
    """One direction of a connection: what is put in comes out in order, later."""

    def __init__(self, link: Link, direction: str, number: int) -> None:
        self._link, self._direction = link, direction
        self._draw = Random(f"{link._seed}/{number}/{direction}")
        self._waiting: deque[tuple[float, Any]] = deque()
        self._last = -math.inf  # nothing overtakes what was sent before

    def put(self, thing: Any) -> None:
        """Send bytes, or a sign that takes no time on the line."""
        size = len(thing) if isinstance(thing, bytes | str) else 0
        with self._link.changed:
            due = self._link.release(self._direction, size, self._draw)
            self._last = max(self._last, due)
            self._waiting.append((self._last, thing))
            self._link.changed.notify_all()

    def get(self, end: float = math.inf) -> Any:
        """The next thing, once it is out. TimeoutError after `end`, EOFError if the link closes."""
        link = self._link
        with link.changed:
            while True:
                if link.closed:
                    raise EOFError("the link is closed")
                now, due = monotonic(), math.inf
                if self._waiting and not link.is_cut:
                    due = max(self._waiting[0][0], link.up_since)
                if due <= now:
                    return self._waiting.popleft()[1]
                if end <= now:
                    raise TimeoutError("nothing came over the link")
                until = min(due, end)
                link.changed.wait(None if until == math.inf else until - now)


class Delayed:
    """A client's connection over a link, used as one without."""

    def __init__(self, socket: ClientConnection, up: _Way, down: _Way) -> None:
        self._socket, self._up, self._down = socket, up, down
        for work in (self._send_on, self._receive_on):
            threading.Thread(target=work, daemon=True, name="emulated link").start()

    def send(self, frame: bytes) -> None:
        self._up.put(frame)

    def recv(self, timeout: float) -> bytes | str:
        """The next message. TimeoutError; ConnectionClosed once the server has closed."""
        came = self._down.get(monotonic() + timeout)
        if isinstance(came, Exception):
            raise came
        return came  # type: ignore[no-any-return]

    def close(self) -> None:
        """Say goodbye, after all that was sent before."""
        self._up.put(lambda: self.end(goodbye=True))

    def drop(self) -> None:
        """Leave without a word, after all that was sent before."""
        self._up.put(lambda: self.end(goodbye=False))

    def end(self, goodbye: bool) -> None:
        """End the real connection now."""
        with suppress(Exception):  # it may have ended before
            if goodbye:
                self._socket.close()
            else:
                self._socket.socket.shutdown(SHUT_RDWR)

    def _send_on(self) -> None:
        with suppress(EOFError, OSError, ConnectionClosed):
            while True:
                thing = self._up.get()
                if callable(thing):
                    thing()
                    return
                self._socket.send(thing)

    def _receive_on(self) -> None:
        try:
            while True:
                self._down.put(self._socket.recv())
        except (ConnectionClosed, OSError, EOFError) as error:
            self._down.put(error)
