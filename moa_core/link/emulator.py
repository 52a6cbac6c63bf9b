"""An emulated link between a client of this process and its server.

It wraps the client's real connection and delays each message, both ways. The line carries messages
one after the other at its bandwidth. Each then takes half the round trip, plus or minus jitter, and
never overtakes another.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from random import Random
from socket import SHUT_RDWR
from time import monotonic, sleep
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from moa_core.errors import UserError

UP, DOWN = "up", "down"  # to the server, to the client
KEYS = ("rtt", "jitter", "down", "up")


@dataclass(frozen=True)
class LinkSettings:
    """A link's properties, as seen by the client.

    rtt       median round trip of a small message in ms, half of it each way
    jitter    standard deviation of the round trip in ms
    down, up  10^6 bits per second to and from the client
    name      of a preset; title: its name for users
    """

    rtt: float = 0.0
    jitter: float = 0.0
    down: float = 1000.0
    up: float = 1000.0
    name: str = "custom"
    title: str = ""

    @property
    def spec(self) -> str:
        """The settings as `link` reads them."""
        values = {key: getattr(self, key) for key in KEYS}
        return ",".join(f"{key}={value:.15g}" for key, value in values.items() if value)


_PRESETS = (  # Jitter and the round trips of lan and wifi are our own choice.
    LinkSettings(1, 0.1, 1000, 1000, "lan", "Wired LAN"),  # gigabit by definition
    LinkSettings(5, 3, 30, 15, "wifi", "Home Wi-Fi"),  # Firefox's throttling profile
    LinkSettings(44, 10, 309, 13.6, "5g", "5G mid-band, US"),  # T-Mobile 2025, Ookla
    LinkSettings(19, 5, 130, 14.7, "5g-uk", "5G, UK"),  # Ofcom, 2022-24
    LinkSettings(21, 8, 29.5, 7.6, "4g-uk", "4G, UK"),  # Ofcom, 2022-24
    LinkSettings(60, 15, 9, 1.5, "4g", "4G, weak signal"),  # Chrome's "Fast 4G"; Opensignal 2019
    LinkSettings(150, 30, 1.6, 0.75, "slow-4g", "Slow 4G"),  # Lighthouse's and Chrome's
    LinkSettings(48, 6.7, 118, 17, "satellite", "Starlink-class"),  # Ookla 2025; Huston 2024
)
PRESETS = {settings.name: settings for settings in _PRESETS}


def link(text: str) -> LinkSettings:
    """Settings from a preset's name, or figures: `rtt=60,jitter=15,down=9`. UserError otherwise."""
    if text in PRESETS:
        return PRESETS[text]
    with suppress(ValueError):
        parts = [part.split("=") for part in text.split(",")]
        given = {key.strip(): float(value) for key, value in parts}
        right = all(0 <= value < 1e6 and key in KEYS for key, value in given.items())
        if right and given.get("down", 1) and given.get("up", 1):
            return LinkSettings(**given)  # type: ignore[arg-type]
    raise UserError(
        f"No link is called {text!r}. Choose one of {', '.join(PRESETS)}, or describe one in ms "
        "and Mbit/s: rtt=60,jitter=15,down=9,up=1.5."
    )


class Link:
    """A link that connections share: `Remote(..., link=Link(...))`."""

    def __init__(self, settings: LinkSettings) -> None:
        self.settings, self.half = settings, settings.rtt / 2000
        self._draw, self._lock = Random(0), threading.Lock()
        self._free_at = {UP: -math.inf, DOWN: -math.inf}  # the line is busy until then

    def connect(self, open_socket: Callable[[float], ClientConnection], within: float) -> Delayed:
        """A connection over this link, after TCP's handshake and WebSocket's.

        open_socket  makes the real one, within the seconds it is given
        """
        sleep(4 * self.half)
        return Delayed(open_socket(within), self)

    def release(self, direction: str, size: int) -> float:
        """When a message of this size, sent now, arrives."""
        settings = self.settings
        with self._lock:
            began = max(monotonic(), self._free_at[direction])
            sent = began + size * 8e-6 / (settings.up if direction == UP else settings.down)
            self._free_at[direction] = sent
            # Two such draws make a round trip's.
            shift = self._draw.gauss(0, settings.jitter / 1000 / math.sqrt(2))
        return sent + max(0.0, self.half + shift)

    def wait(self, due: float) -> None:
        """Wait until then."""
        sleep(max(0.0, due - monotonic()))


class _Way:
    """One direction of a connection: what was sent arrives later, in order."""

    def __init__(self, link: Link, direction: str) -> None:
        self._link, self._direction = link, direction
        self._waiting: SimpleQueue[tuple[float, Callable[[], object], bool]] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True, name="emulated link").start()

    def put(self, arrive: Callable[[], object], size: int = 0, last: bool = False) -> None:
        """Send something of this many bytes; nothing comes after the last."""
        self._waiting.put((self._link.release(self._direction, size), arrive, last))

    def _run(self) -> None:
        last = False
        with suppress(OSError, ConnectionClosed):
            while not last:
                due, arrive, last = self._waiting.get()
                self._link.wait(due)
                arrive()


class Delayed:
    """A client's connection over an emulated link, with the interface of a real one."""

    def __init__(self, socket: ClientConnection, link: Link) -> None:
        self._socket, self._inbox = socket, SimpleQueue[Any]()
        self._up, self._down = _Way(link, UP), _Way(link, DOWN)
        threading.Thread(target=self._receive, daemon=True, name="emulated link").start()

    def send(self, frame: bytes) -> None:
        self._up.put(partial(self._socket.send, frame), len(frame))

    def recv(self, timeout: float) -> bytes | str:
        """The next message. TimeoutError; ConnectionClosed once the server has closed."""
        try:
            came = self._inbox.get(timeout=timeout)
        except Empty:
            raise TimeoutError("nothing came over the link") from None
        if isinstance(came, Exception):
            raise came
        return came  # type: ignore[no-any-return]

    def close(self) -> None:
        """Say goodbye, after all earlier messages."""
        self._up.put(self._socket.close, last=True)

    def drop(self) -> None:
        """Leave without a goodbye, after all earlier messages."""
        self._up.put(partial(self._socket.socket.shutdown, SHUT_RDWR), last=True)

    def _receive(self) -> None:
        try:
            while True:
                frame = self._socket.recv()
                self._down.put(partial(self._inbox.put, frame), len(frame))
        except (ConnectionClosed, OSError, EOFError) as error:
            self._down.put(partial(self._inbox.put, error), last=True)
