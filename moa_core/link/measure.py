"""Measure a link from both of its ends: small messages back and forth, and bulk each way.

Both ends are here, so the same traffic can go through the proxy or through the kernel's own
emulation: `python -m moa_core.link.measure serve PORT`, `... run HOST:PORT`.
"""

from __future__ import annotations

import json
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from moa_core.link.delays import DOWN, UP, Delays
from moa_core.link.network import PRESETS, LinkSettings, link

PING, BULK_UP, BULK_DOWN = 0, 1, 2
MESSAGE = 64  # bytes
BULK = 1_000_000
PINGS = 50
PAUSE_S = 0.02  # between pings, so that each is a burst of its own
_HEAD = struct.Struct("<BI")


@dataclass(frozen=True)
class Measured:
    """What a link does to traffic. Seconds; bulk from the first byte sent to the last received."""

    round_trips: tuple[float, ...]
    up: float
    down: float

    @property
    def median(self) -> float:
        """Of the round trips."""
        return statistics.median(self.round_trips)

    @property
    def spread(self) -> float:
        """Half the middle 68 %: a normal distribution's standard deviation, whatever stalled."""
        cuts = statistics.quantiles(self.round_trips, n=100)
        return (cuts[83] - cuts[15]) / 2


def serve(listener: socket.socket) -> None:
    """Answer `measure`, one connection after the other, until the socket closes."""
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer:
            try:
                while head := _take(peer, _HEAD.size):
                    _answer(peer, *_HEAD.unpack(head))
            except OSError:
                continue


def _answer(peer: socket.socket, kind: int, size: int) -> None:
    if kind == BULK_DOWN:
        peer.sendall(struct.pack("<d", time.monotonic()) + bytes(size))
        return
    _take(peer, size)
    peer.sendall(struct.pack("<d", time.monotonic()).ljust(MESSAGE, b"\0"))


def _take(peer: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; fewer if the other end closed."""
    parts = bytearray()
    while len(parts) < size and (part := peer.recv(min(size - len(parts), 1 << 18))):
        parts += part
    return bytes(parts)


def measure(host: str, port: int, pings: int = PINGS, bulk: int = BULK) -> Measured:
    """Pings, then bulk up and down, over one connection. Both ends must share a clock."""
    with socket.create_connection((host, port), timeout=120) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _ping(peer)  # the connection is open all the way
        trips = []
        for _ in range(pings):
            time.sleep(PAUSE_S)
            trips.append(_ping(peer))
        up = _bulk_up(peer, bulk) if bulk else 0.0
        time.sleep(PAUSE_S)
        down = _bulk_down(peer, bulk) if bulk else 0.0
        return Measured(tuple(trips), up, down)


def _ping(peer: socket.socket) -> float:
    start = time.monotonic()
    peer.sendall(_HEAD.pack(PING, MESSAGE - _HEAD.size) + bytes(MESSAGE - _HEAD.size))
    if len(_take(peer, MESSAGE)) < MESSAGE:
        raise ConnectionError("the server closed the connection")
    return time.monotonic() - start


def _bulk_up(peer: socket.socket, size: int) -> float:
    start = time.monotonic()
    peer.sendall(_HEAD.pack(BULK_UP, size) + bytes(size))
    (end,) = struct.unpack_from("<d", _take(peer, MESSAGE))
    return float(end) - start


def _bulk_down(peer: socket.socket, size: int) -> float:
    peer.sendall(_HEAD.pack(BULK_DOWN, size))
    (start,) = struct.unpack("<d", _take(peer, 8))
    _take(peer, size)
    return time.monotonic() - float(start)


def modelled(settings: LinkSettings, seed: int, pings: int = PINGS, bulk: int = BULK) -> Measured:
    """What the model says of that traffic, without a socket and at no cost of its own."""
    up, down = Delays(settings, seed, UP), Delays(settings, seed, DOWN)
    now, trips = settings.rtt_ms / 1000, []
    for _ in range(pings + 1):
        back = down(MESSAGE, up(MESSAGE, now))
        trips.append(back - now)
        now = back + PAUSE_S
    arrived = up(_HEAD.size + bulk, now)
    seconds_up, now = arrived - now, down(MESSAGE, arrived) + PAUSE_S
    asked = up(_HEAD.size, now)
    return Measured(tuple(trips[1:]), seconds_up, down(8 + bulk, asked) - asked)


@contextmanager
def server() -> Iterator[int]:
    """`serve` on a free port of this machine, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def through_proxy(
    settings: LinkSettings, seed: int, pings: int = PINGS, bulk: int = BULK
) -> Measured:
    """Measure an emulated link, its proxy in a process of its own."""
    from moa_core.link.program import ProxyProgram

    with server() as port, ProxyProgram("127.0.0.1", port, settings, seed) as proxy:
        return measure("127.0.0.1", proxy.port, pings, bulk)


def offline_is_silent(settings: LinkSettings, seconds: float = 1.0) -> bool:
    """Whether, for that long, no byte comes through."""
    from moa_core.link.program import ProxyProgram

    with server() as port, ProxyProgram("127.0.0.1", port, settings) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=seconds) as peer:
            try:
                _ping(peer)
            except TimeoutError:
                return proxy.traffic()[UP].bytes == 0
        return False


_ROW = "{:<10} {:>6} {:>6} {:>8} {:>6} {:>6} {:>8}  {:>7} {:>7} {:>8}  {:>7} {:>7} {:>8}"


def check(names: Sequence[str] = (), seed: int = 0) -> int:
    """Print what each preset asks for, what the model makes of it, and what was measured."""
    chosen = [link(name) for name in names] if names else list(PRESETS.values())
    print(f"{PINGS} messages of {MESSAGE} B back and forth, {BULK / 1e6:g} MB up, then down.")
    print("asked: the settings; model: with this seed's draws; ms for small messages, s for bulk.")
    print(_ROW.format("", "trip", "", "", "spread", "", "", "up", "", "", "down", "", ""))
    print(_ROW.format("link", *("asked", "model", "measured") * 4))
    good = True
    for settings in chosen:
        if settings.offline:
            silent = offline_is_silent(settings)
            good = good and silent
            print(f"{settings.name:<10} {'nothing' if silent else 'SOMETHING'} came through")
            continue
        print(_row(settings, modelled(settings, seed), through_proxy(settings, seed)), flush=True)
    return 0 if good else 1


def _row(settings: LinkSettings, model: Measured, seen: Measured) -> str:
    spread = "-" if settings.p90_ms else f"{settings.jitter_ms:.1f}"
    cells = [f"{settings.rtt_ms:.1f}", f"{model.median * 1e3:.2f}", f"{seen.median * 1e3:.2f}"]
    cells += [spread, f"{model.spread * 1e3:.2f}", f"{seen.spread * 1e3:.2f}"]
    for mbps, expected, took in (
        (settings.up_mbps, model.up, seen.up),
        (settings.down_mbps, model.down, seen.down),
    ):
        asked = BULK * 8e-6 / mbps + settings.rtt_ms / 2000
        cells += [f"{asked:.3f}", f"{expected:.3f}", f"{took:.3f}"]
    return _ROW.format(settings.name[:10], *cells)


def main(arguments: Sequence[str]) -> int:
    """serve PORT, or run HOST:PORT PINGS BYTES: prints Measured as JSON."""
    if arguments[0] == "serve":
        with socket.create_server(("", int(arguments[1]))) as listener:
            print("ready", flush=True)
            serve(listener)
        return 0
    host, _, port = arguments[1].rpartition(":")
    pings, bulk = (int(text) for text in arguments[2:4])
    print(json.dumps(asdict(measure(host, int(port), pings, bulk))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
