"""An emulated link between a client of this process and its server: delays, losses, cuts.

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
from random import Random
from socket import SHUT_RDWR
from time import monotonic
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from moa_core.link.network import LinkSettings

UP, DOWN = "up", "down"  # to the server, to the client
PACKET = 1400  # bytes
RESEND = 0.2  # seconds: the least after which Linux sends a packet again
HANDSHAKES = 2  # TCP's and WebSocket's


class Link:
    """A link that connections share. `with Link(...) as link: Remote(..., link=link)`.

    It is up at first. `close` ends every connection over it.
    """

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
        """Nothing passes any more."""
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

        open_socket  makes the real one within so many seconds
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
        """When a message of so many bytes that is sent now comes out."""
        settings, now = self.settings, monotonic()
        mbps = settings.up_mbps if direction == UP else settings.down_mbps
        sent = max(now, self._free_at[direction]) + size * 8e-6 / mbps
        self._free_at[direction] = sent
        trip = settings.rtt_ms / 1000
        shift = draw.gauss(0, settings.jitter_ms / 1000 / math.sqrt(2))  # two make a round trip
        lost = max(_times_lost(settings.loss, draw) for _ in range(max(1, -(-size // PACKET))))
        return sent + max(0.0, trip / 2 + shift) + max(trip, RESEND) * float(2**lost - 1)


def _times_lost(loss: float, draw: Random) -> int:
    """How often in a row a packet is lost."""
    return int(min(math.log(1 - draw.random()) / math.log(loss), 6)) if 0 < loss < 1 else 0


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
    """A client's connection over a link, with the methods of one without."""

    def __init__(self, socket: ClientConnection, up: _Way, down: _Way) -> None:
        self._socket, self._up, self._down = socket, up, down
        for work in (self._send_on, self._receive_on):
            threading.Thread(target=work, daemon=True, name="emulated link").start()

    def send(self, frame: bytes) -> None:
        """Put a message on its way."""
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
