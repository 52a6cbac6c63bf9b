"""The state of an emulated link that all its connections share: settings, cut, counters, log."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from moa_core.link.delays import DIRECTIONS, Delays, Line
from moa_core.link.network import LinkSettings

LOG_LENGTH = 10_000


@dataclass(frozen=True)
class Passage:
    """Bytes that came through: when they entered the link, and how long they took."""

    time: float  # seconds since the link's start
    direction: str
    bytes: int  # of one read of the sender's socket, mostly one message
    delay: float  # seconds, measured, until the last of them was handed on


@dataclass
class Traffic:
    """One direction's counters. Packets and stalls count those sent again after a cut too."""

    entered: int = 0  # bytes
    bytes: int = 0  # that came out
    packets: int = 0
    stalls: int = 0  # packets lost and sent again


class Gate:
    """One link. Its clock starts at 0."""

    def __init__(self, settings: LinkSettings, seed: int) -> None:
        self.settings = settings
        self.cut = False
        self.traffic = {name: Traffic() for name in DIRECTIONS}
        self.log: deque[Passage] = deque(maxlen=LOG_LENGTH)
        self._seed = seed
        self._lines = {name: Line() for name in DIRECTIONS}
        self._streams = 0
        self._start = time.monotonic()

    def now(self) -> float:
        """Seconds since the link's start."""
        return time.monotonic() - self._start

    @property
    def passing(self) -> bool:
        """Whether bytes go through."""
        return not self.cut and not self.settings.offline

    @property
    def round_trip(self) -> float:
        """Seconds of the settings' median round trip."""
        return self.settings.rtt_ms / 1000

    def new_delays(self) -> dict[str, Delays]:
        """Delays of the next connection: draws of its own, the same lines."""
        stream, self._streams = self._streams, self._streams + 1
        return {
            name: Delays(self.settings, self._seed, name, stream, self._lines[name])
            for name in DIRECTIONS
        }

    def clear_lines(self) -> None:
        """What was on its way is no longer."""
        for line in self._lines.values():
            line.free_at = self.now()
