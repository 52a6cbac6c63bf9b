"""The bytes of one connection on their way through an emulated link, both ways."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from moa_core.link.delays import DIRECTIONS, DOWN, UP, Delays
from moa_core.link.gate import Gate, Passage

HELD_BYTES = 8 << 20  # beyond this the sender is made to wait, as by a full socket buffer
WRITE_BYTES = 1 << 16
LEAD_S = 0.0002  # what a hop costs by itself: to wake, read, wake at the time and write
OPEN, CLOSE, RESET = "open", "close", "reset"  # what goes through a link beside bytes


@dataclass
class _Item:
    """One read of the socket, or a sign without bytes, on its way."""

    sign: str
    data: bytes
    entered: float
    done: int = 0  # bytes of it that came out
    plan: deque[tuple[int, float]] = field(default_factory=deque)  # bytes and release, in order


class Pipe:
    """One direction of one connection: what is pushed in comes out at the time the model says."""

    def __init__(self, gate: Gate, delays: Delays, direction: str) -> None:
        self.direction = direction
        self.delays = delays
        self.source: asyncio.Transport | None = None  # made to wait when too much is held
        self.deliver: Callable[[str, bytes], None] = lambda sign, data: None
        self.opened_at = 0.0  # nothing leaves before
        self.ready = True  # whether the receiver takes more
        self._gate = gate
        self._items: deque[_Item] = deque()
        self._held = 0
        self._delivered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._dead = False

    def push(self, sign: str, data: bytes = b"") -> None:
        """Bytes enter the link (sign: ""), or the sign that the connection opens or ends."""
        if self._dead:
            return
        item = _Item(sign, data, self._gate.now())
        self._items.append(item)
        self._held += len(data)
        self._gate.traffic[self.direction].entered += len(data)
        if self._held > HELD_BYTES and self.source:
            self.source.pause_reading()
        if self._gate.passing:
            self._plan(item, item.entered)
            self.go_on()

    def hold(self) -> None:
        """The link is cut: what has not come out stays in."""
        self._stop_timer()
        for item in self._items:
            item.plan.clear()

    def resend(self) -> None:
        """The link is back: what has not come out is sent again, from now."""
        now = self._gate.now()
        self.delays.resend(self._delivered, now)
        for item in self._items:
            self._plan(item, now)
        self.go_on()

    def discard(self) -> None:
        """Nobody is there to take what comes: it goes nowhere, now and later."""
        self._dead = True
        self._stop_timer()
        self._items.clear()

    def go_on(self) -> None:
        """Hand on what is due, and set the clock for what comes next."""
        self._stop_timer()
        while self._items and self._items[0].plan and self.ready:
            item = self._items[0]
            wait = item.plan[0][1] - LEAD_S - self._gate.now()
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait, self.go_on)
                return
            self._hand_on(item)

    def _hand_on(self, item: _Item) -> None:
        size, due = 0, self._gate.now() + LEAD_S
        while item.plan and item.plan[0][1] <= due and size < WRITE_BYTES:
            size += item.plan.popleft()[0]
        part = item.data[item.done : item.done + size]
        item.done += size
        self._delivered += size
        self._release(size)
        traffic = self._gate.traffic[self.direction]
        traffic.bytes += size
        if not item.plan:
            self._items.popleft()
            if item.data:
                delay = self._gate.now() - item.entered
                self._gate.log.append(Passage(item.entered, self.direction, item.done, delay))
        self.deliver(item.sign, part)

    def _release(self, size: int) -> None:
        before, self._held = self._held, self._held - size
        if before > HELD_BYTES >= self._held and self.source:
            self.source.resume_reading()

    def _plan(self, item: _Item, now: float) -> None:
        if item.sign == OPEN:  # the client's first byte leaves when it has its answer
            self.opened_at = now + self._gate.round_trip
        pieces = self.delays.pieces(len(item.data) - item.done, max(now, self.opened_at))
        item.plan.extend((piece.size, piece.release) for piece in pieces)
        if item.data:
            traffic = self._gate.traffic[self.direction]
            traffic.packets += sum(piece.first for piece in pieces)
            traffic.stalls += sum(piece.first and piece.stalled for piece in pieces)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class Connection:
    """A client's connection, through the link, to the server."""

    def __init__(
        self,
        gate: Gate,
        connect: Callable[[asyncio.Protocol], Coroutine[None, None, object]],
        gone: Callable[[Connection], None],
    ) -> None:
        delays = gate.new_delays()
        self.pipes = {name: Pipe(gate, delays[name], name) for name in DIRECTIONS}
        self.client = End(self.pipes[UP], self.pipes[DOWN], self._end_lost)
        self.server = End(self.pipes[DOWN], self.pipes[UP], self._end_lost)
        self.pipes[DOWN].deliver = self.client.take
        self.pipes[UP].deliver = self._take_up
        self._connect = connect
        self._gone = gone
        self._connecting: asyncio.Task[object] | None = None
        self.pipes[UP].push(OPEN)

    def abort(self) -> None:
        """Both ends see the connection reset, now."""
        for pipe in self.pipes.values():
            pipe.discard()
        if self._connecting:
            self._connecting.cancel()
        self.client.reset()
        self.server.reset()

    def _take_up(self, sign: str, data: bytes) -> None:
        if sign != OPEN:
            return self.server.take(sign, data)
        self.pipes[UP].ready = False  # until the server has taken the connection
        self._connecting = asyncio.ensure_future(self._connect(self.server))
        self._connecting.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[object]) -> None:
        if task.cancelled():
            return
        if task.exception():  # nobody listens there: the client is told so, over the link
            self.pipes[UP].discard()
            self.pipes[DOWN].push(RESET)
            return self._end_lost()
        self.server.resume_writing()

    def _end_lost(self) -> None:
        if self.client.transport or self.server.transport:
            return
        if self._connecting and not self._connecting.done():
            return  # the server will hear of it in a moment
        self.abort()  # a client that left before the server was reached has not been there
        self._gone(self)


class End(asyncio.Protocol):
    """One end's socket: what it says goes into a pipe, what comes out of the other is for it."""

    def __init__(self, out: Pipe, into: Pipe, lost: Callable[[], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self._out, self._into = out, into
        self._lost = lost
        self._heard_all = self._told_all = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = self._out.source = transport
        transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        self._out.push("", data)

    def eof_received(self) -> bool:
        self._heard_all = True
        self._out.push(CLOSE)
        self._close_if_done()
        return True  # the other direction may still have something to say

    def pause_writing(self) -> None:
        self._into.ready = False

    def resume_writing(self) -> None:
        self._into.ready = True
        self._into.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = self._out.source = None
        self._into.discard()
        if not self._heard_all:
            self._out.push(RESET)
        self._lost()

    def take(self, sign: str, data: bytes) -> None:
        """What came through the link."""
        if self.transport is None:
            return
        if data:
            self.transport.write(data)
        if sign == RESET:
            self.reset()
        elif sign == CLOSE:
            self._told_all = True
            try:
                self.transport.write_eof()
            except OSError:  # it has gone in this very moment
                return self.reset()
            self._close_if_done()

    def reset(self) -> None:
        """End the connection as a reset does, unless it has ended."""
        if self.transport is None:
            return
        linger = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger
        )
        self.transport.abort()

    def _close_if_done(self) -> None:
        if self._heard_all and self._told_all and self.transport:
            self.transport.close()
