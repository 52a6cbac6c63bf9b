"""A connection to a server: messages out and in, bytes counted."""

from contextlib import suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR
from time import monotonic

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidURI
from websockets.sync.client import ClientConnection, connect
from websockets.uri import parse_uri

from moa_core.errors import UserError
from moa_core.link import wire
from moa_core.link.emulator import Delayed, Link
from moa_core.link.wire import Kind

HANDSHAKE = 5.0  # seconds for a connection before another one is tried
GONE = (ConnectionClosed, TimeoutError, OSError, EOFError)


@dataclass(frozen=True)
class Address:
    """A server's address. token: its secret; kind: the number format of messages.

    Messages and traces contain the address, but never the token. So an address has no password.
    """

    url: str
    token: str = field(default="", repr=False)
    kind: Kind = "bf16"

    def __post_init__(self) -> None:
        if "@" in self.url:
            raise UserError("An address cannot contain a password: set MOA_TOKEN instead.")
        try:
            parse_uri(self.url).host.encode("idna")  # as it will be looked up
        except (InvalidURI, ValueError):
            raise UserError(f"{self.url!r} is not an address like ws://host:port.") from None


class Wire:
    """A connection to a server. link: an emulated one."""

    def __init__(
        self, address: Address, hello: wire.Hello, timeout: float = HANDSHAKE,
        link: Link | None = None,
    ) -> None:  # fmt: skip
        def open_socket(within: float) -> ClientConnection:
            made = connect(
                address.url, max_size=wire.MOST_DOWN, max_queue=64, compression=None, proxy=None,
                open_timeout=within, close_timeout=0.2, ping_interval=None,
            )  # fmt: skip
            return made.__enter__()  # `close` ends it

        began = monotonic()
        self._socket: ClientConnection | Delayed
        try:
            self._socket = link.connect(open_socket, timeout) if link else open_socket(timeout)
        except InvalidMessage as error:  # the link was lost during the handshake
            raise ConnectionError(str(error)) from error
        except InvalidHandshake as error:
            raise UserError(f"{address.url} is not a server of this program ({error}).") from None
        self.sent = self.received = 0
        self._joiner = wire.Joiner()
        self.heard = monotonic()
        try:
            self.send(hello)
            while isinstance(welcome := self.receive(timeout), wire.Alive):
                pass  # it is busy, or loads our drafter
            if not isinstance(welcome, wire.Welcome):
                raise UserError("The server did not answer with a welcome.")
        except BaseException:
            self.close()
            raise
        self.welcome = welcome
        self.round_trip = (monotonic() - began) / 3  # TCP's handshake, WebSocket's, and hello

    def send(self, message: wire.Up) -> None:
        """ConnectionClosed or OSError if the connection is gone."""
        frame = wire.encode(message)
        self.sent += len(frame)
        self._socket.send(frame)

    def receive(self, timeout: float) -> wire.Down:
        """The next message. One of GONE if none comes. UserError for an invalid one or a refusal,
        caused by one of GONE if a new session may succeed.

        timeout  seconds from one frame to the next; a long message comes in several
        """
        message = None
        while message is None:
            frame = self._socket.recv(timeout)
            self.heard = monotonic()
            self.received += len(frame)
            try:
                message = self._joiner.take(frame)
            except wire.WireError as error:
                raise UserError(f"The server sent an unknown message: {error}") from None
        if isinstance(message, wire.Refused):
            passing = ConnectionError(message.reason) if message.again else None
            raise UserError(f"The server refused: {message.reason}") from passing
        return message

    def close(self) -> None:
        with suppress(Exception):
            self._socket.close()

    def drop(self) -> None:
        """Close the connection without a goodbye, which would not arrive."""
        if isinstance(self._socket, Delayed):
            self._socket.drop()
            return
        with suppress(Exception):  # `close` would leave its reading thread waiting
            self._socket.socket.shutdown(SHUT_RDWR)


def reach(address: Address, hello: wire.Hello, link: Link | None = None) -> Wire:
    """Connect to a server. UserError, caused by one of GONE, if none answers."""
    try:
        return Wire(address, hello, link=link)
    except GONE as error:
        raise UserError(f"There is no server at {address.url}: {error}") from error
