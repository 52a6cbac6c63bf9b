"""The server: a target for many clients, over WebSockets. GET /health reports that it is up."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, TypeVar, cast

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link import wire
from moa_core.link.client_weights import drafter_mark, packed, pieces, target_mark
from moa_core.link.session import Denied, Limits, Session
from moa_core.model.target import Target

log = logging.getLogger(__name__)
quiet = logging.getLogger(f"{__name__}.protocol")
quiet.setLevel(logging.CRITICAL)  # otherwise each malformed handshake fills a page of the log
BEAT = 0.3  # seconds between two signs of life
HELLO_WITHIN = 10.0  # seconds for a client's hello
WRONG_TOKEN = 0.3  # seconds of delay for a wrong token
PING = 20.0  # seconds until the next ping, and for its answer
SEND_WITHIN = 30.0  # seconds for a client to read 64 KiB
CLOSE_WITHIN = 2.0  # seconds for a client to answer a goodbye
MAX_QUEUE = 4  # unread messages per client
WAITING = 128  # connections without a hello
MOST_UNSENT = 1 << 20  # unread bytes of answers per client
T = TypeVar("T")
END: Any = object()


class Gone(Exception):
    """The client has left."""


class ClientConnection(ServerConnection):
    """A client's connection, with limits on the server's memory for it.

    MAX_QUEUE + 1 messages of MOST_HELLO bytes, or of MOST_UP bytes once it is let in; and
    MOST_UNSENT bytes of output, such as answers to a flood of pings.

    hall  all connections not yet let in: at most WAITING, beyond which the oldest is closed
    """

    def __init__(self, hall: dict[ClientConnection, None], *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._hall = hall

    @property
    def here(self) -> bool:
        return self.state is State.OPEN

    def let_in(self) -> None:
        self._hall.pop(self, None)
        self.protocol.max_message_size = wire.MOST_UP

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hall[self] = None
        if len(self._hall) > WAITING:
            oldest = next(iter(self._hall))
            del self._hall[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hall.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.get_write_buffer_size() > MOST_UNSENT:
            self.transport.abort()
            return
        super().data_received(data)


class Server:
    """Serves one target. One thread does all its work, one request at a time.

    Requests are served in order. Each client has at most one in the queue, so it waits for at most
    one step of every other client. Clients that have left are skipped.

    drafters  loads a drafter by name for its server outputs; UserError for a name that it does not
              serve. Clients choose the name, so it must not open folders or download.
    token     the clients' secret; "": all clients are let in
    session   the kind of its sessions
    sessions  connections by session name: at most `limits.sessions`; a session ends with its
              connection
    """

    def __init__(
        self, target: Target, drafters: Callable[[str], Drafter], token: str = "",
        limits: Limits | None = None, session: type[Session] = Session,
    ) -> None:  # fmt: skip
        self.hall: dict[ClientConnection, None] = {}
        self.sessions: dict[str, ClientConnection] = {}
        self._limits = limits or Limits()
        self._target, self._token, self._mark = target, token, target_mark(target)
        self._load, self._kind = drafters, session
        self._drafters: dict[str, tuple[Drafter, str]] = {"none": (Vanilla(), "")}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="target")
        self._files: TemporaryDirectory[str] | None = None
        self._packing = asyncio.Lock()

    async def run(self, host: str, port: int, ready: Callable[[int], None]) -> None:
        """Serve until cancelled. `ready` gets the port when clients can connect."""
        try:
            # Web pages send an origin; none of them is a client.
            async with serve(
                cast(Any, self.attend), host, port, max_size=wire.MOST_HELLO, max_queue=MAX_QUEUE,
                compression=None, process_request=self._http, server_header=None,
                open_timeout=HELLO_WITHIN, close_timeout=CLOSE_WITHIN, ping_interval=PING,
                ping_timeout=PING, origins=[None], logger=quiet,
                create_connection=cast(Any, partial(ClientConnection, self.hall)),
            ) as server:  # fmt: skip
                ready(next(iter(server.sockets)).getsockname()[1])
                try:
                    await asyncio.Event().wait()
                finally:  # a goodbye, without waiting for silent clients
                    asyncio.get_running_loop().call_later(CLOSE_WITHIN, self._close)
        finally:
            self._worker.shutdown(wait=False, cancel_futures=True)
            if self._files is not None:
                self._files.cleanup()

    def _http(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != "/health":
            return None
        clients = f"{len(self.sessions)} sessions, {len(self.hall)} waiting"
        return connection.respond(HTTPStatus.OK, f"ok: {self._target.name}, {clients}\n")

    def _close(self) -> None:
        for visitor in (*self.hall, *self.sessions.values()):
            visitor.transport.abort()

    async def attend(self, visitor: ClientConnection) -> None:
        name, refused, beat = token_urlsafe(18), None, None
        try:
            hello = await self._hello(visitor)
            name = hello.session if hello.session in self.sessions else name
            beat = asyncio.create_task(self._beat(visitor))  # also while a long request arrives
            session = await self._session(visitor, hello, name)
            await self._send(visitor, wire.Welcome(name, self._target.name, self._mark))
            silence = Denied("Nothing was asked for a long time.", again=True)
            while True:
                request = await self._read(visitor, self._limits.idle, silence)
                await self._answer(visitor, session, request)
        except (ConnectionClosed, Gone):
            pass
        except (Denied, wire.WireError) as error:
            refused = wire.Refused(str(error), isinstance(error, Denied) and error.again)
        except Exception:
            log.exception("a client's request failed")
            refused = wire.Refused("The server failed; its log says why.")
        finally:
            if beat is not None:
                beat.cancel()
            if self.sessions.get(name) is visitor:
                del self.sessions[name]
        with suppress(ConnectionClosed, Gone):
            if refused is not None:
                await self._send(visitor, refused)

    async def _hello(self, visitor: ClientConnection) -> wire.Hello:
        hello = await self._read(visitor, HELLO_WITHIN, Denied("Nobody said hello."))
        if not isinstance(hello, wire.Hello):
            raise Denied("The first message must be a hello.")
        if hello.version != wire.VERSION:
            raise Denied(f"This server speaks version {wire.VERSION}, the client {hello.version}.")
        if not hmac.compare_digest(hello.token.encode(), self._token.encode()):
            await asyncio.sleep(WRONG_TOKEN)
            raise Denied("The token is wrong.")
        visitor.let_in()
        return hello

    async def _session(self, visitor: ClientConnection, hello: wire.Hello, name: str) -> Session:
        """A new session, in place of the client's lost one. Denied if the server is full."""
        drafter, mark = await self._drafter(visitor, hello.drafter)
        if hello.fingerprint != mark:
            raise Denied(f"The server's {hello.drafter} has other weights than the client's.")
        if lost := self.sessions.pop(name, None):
            lost.transport.abort()  # its client noticed the loss first
        # A client may have left unnoticed, with its request in the queue.
        self.sessions = {one: there for one, there in self.sessions.items() if there.here}
        if len(self.sessions) >= self._limits.sessions:
            places = f"All {self._limits.sessions} places here are taken"
            raise Denied(f"{places}; try again later.", again=True)
        self.sessions[name] = visitor
        return self._kind(self._target, drafter, hello.kind, self._limits)

    async def _drafter(self, visitor: ClientConnection, name: str) -> tuple[Drafter, str]:
        """A drafter and its mark, loaded at first use, which may take seconds."""

        def load() -> None:
            if name not in self._drafters:  # another client's request may have loaded it
                drafter = self._load(name)
                self._drafters[name] = drafter, drafter_mark(drafter)

        if name not in self._drafters:
            try:
                await self._work(visitor, load)
            except UserError as error:
                raise Denied(f"The server has no drafter {name!r}: {error}") from None
        return self._drafters[name]

    async def _beat(self, visitor: ClientConnection) -> None:
        """Send signs of life, so that a client can tell a slow link from a lost one."""
        with suppress(ConnectionClosed, Gone):
            while True:
                await asyncio.sleep(BEAT)
                await self._send(visitor, wire.Alive())

    async def _read(self, visitor: ClientConnection, within: float, silence: Denied) -> wire.Up:
        try:
            async with asyncio.timeout(within):
                return wire.read_up(await visitor.recv())
        except TimeoutError:
            raise silence from None

    async def _answer(self, visitor: ClientConnection, session: Session, request: wire.Up) -> None:
        """Make and send one message after the other; other clients get turns in between.

        The next message is made after the last one is sent, so a client that does not read delays
        only itself.
        """
        messages: Iterator[Any]
        match request:
            case wire.Prefill():
                messages, most = session.prefill(request), request.answers
            case wire.Verify():
                messages, most = map(session.verify, [request]), 1
            case wire.Stream():
                messages, most = session.push(request), request.answers
            case wire.Fetch():
                return await self._give(visitor, request.last)
            case wire.Hello():
                raise Denied("There was a hello before.")
        for _ in range(most):
            began = perf_counter()
            message = await self._work(visitor, lambda: next(messages, END))
            if message is END:
                return
            if not isinstance(message, wire.Share):  # its whole time, with that in the queue
                message = msgspec.structs.replace(message, seconds=perf_counter() - began)
            await self._send(visitor, message)

    async def _give(self, visitor: ClientConnection, last: int) -> None:
        """Send the weights that a client needs, without using the worker or this thread."""
        async with self._packing:
            piece, rest = await asyncio.to_thread(self._packed, last)
        while piece is not END:
            await self._send(visitor, piece)
            piece = await asyncio.to_thread(lambda: next(rest, END))

    def _packed(self, last: int) -> tuple[wire.Piece, Iterator[wire.Piece]]:
        """The first piece of the files, and the others."""
        if self._files is None:
            self._files = TemporaryDirectory(prefix="moa-weights-", ignore_cleanup_errors=True)
        rest = pieces(packed(self._target, last, Path(self._files.name)))
        return next(rest), rest

    async def _work(self, visitor: ClientConnection, job: Callable[[], T]) -> T:
        """Run on the worker thread. Gone if the client has left by then."""

        def unless_gone() -> T:
            if not visitor.here:
                raise Gone
            return job()

        return await asyncio.get_running_loop().run_in_executor(self._worker, unless_gone)

    async def _send(self, visitor: ClientConnection, message: wire.Down) -> None:
        """Send a message. Gone if the client does not read it: pings fail while this waits."""
        for frame in wire.frames(message):
            try:
                async with asyncio.timeout(SEND_WITHIN):
                    await visitor.send(frame)
            except TimeoutError:
                visitor.transport.abort()
                raise Gone from None
