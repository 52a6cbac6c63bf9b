"""A client's connection to the server, which can make the server hold only so much for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from websockets.asyncio.server import Server, ServerConnection
from websockets.protocol import State
from websockets.server import ServerProtocol

from moa_core.link.wire import MOST_HELLO, MOST_UP

WAITING = 128  # connections whose client has not said who it is
MOST_UNSENT = 1 << 20  # bytes that a client has caused and does not read


class Gone(Exception):
    """Whoever asked is no longer there: nothing need be done."""


class WaitingRoom:
    """Those who have not yet said a good hello.

    At most so many: for the next one, the one who has waited longest goes. Who means to stay needs
    a moment, so the room cannot be kept full.
    """

    def __init__(self, most: int = WAITING) -> None:
        self._most = most
        self._visitors: dict[Visitor, None] = {}  # in order of arrival
        self._everyone: set[Visitor] = set()  # those let in as well

    def __len__(self) -> int:
        return len(self._visitors)

    def enter(self, visitor: Visitor) -> None:
        """One more, and perhaps one less."""
        self._everyone.add(visitor)
        self._visitors[visitor] = None
        if len(self._visitors) > self._most:
            oldest = next(iter(self._visitors))
            self.let_in(oldest)
            oldest.transport.abort()

    def let_in(self, visitor: Visitor) -> None:
        """One of them waits no longer. Twice is once."""
        self._visitors.pop(visitor, None)

    def leave(self, visitor: Visitor) -> None:
        """One is gone, let in or not."""
        self.let_in(visitor)
        self._everyone.discard(visitor)

    def close(self) -> None:
        """Everybody has to go, those who were let in as well."""
        for visitor in list(self._everyone):
            visitor.transport.abort()


class Visitor(ServerConnection):
    """A connection that starts in a waiting room, where only short messages are read.

    What it costs at most: until let in, MAX_QUEUE + 1 messages of MOST_HELLO bytes, then of
    MOST_UP; MOST_UNSENT bytes on their way out, for instance answers to a flood of pings.
    """

    def __init__(
        self, room: WaitingRoom, protocol: ServerProtocol, server: Server, **options: Any
    ) -> None:
        super().__init__(protocol, server, **options)
        self._room = room
        self.protocol.max_message_size = MOST_HELLO

    @property
    def here(self) -> bool:
        """Whether somebody may still listen."""
        return self.state is State.OPEN

    def let_in(self) -> None:
        """It has said who it is."""
        self._room.let_in(self)
        self.protocol.max_message_size = MOST_UP

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._room.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.get_write_buffer_size() > MOST_UNSENT:
            self.transport.abort()
            return
        super().data_received(data)


def visiting(room: WaitingRoom) -> Callable[..., Visitor]:
    """What makes connections, for `websockets.serve`."""

    def make(protocol: ServerProtocol, server: Server, **options: Any) -> Visitor:
        return Visitor(room, protocol, server, **options)

    return make
