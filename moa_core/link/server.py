"""The server: a target for many clients, over WebSockets. GET /health says that it is up."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from secrets import token_urlsafe
from time import monotonic, perf_counter
from typing import Any, TypeVar, cast

from websockets.asyncio.server import Server as SocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from moa_core.drafters.base import Drafter
from moa_core.link.client_weights import WeightFiles, target_mark
from moa_core.link.session import Denied, Drafters, Limits, Session
from moa_core.link.wire import (
    MOST_HELLO,
    MOST_UP,
    VERSION,
    Alive,
    Down,
    Fetch,
    Hello,
    Prefill,
    Refused,
    Stream,
    Up,
    Verify,
    Welcome,
    WireError,
    frames,
    read_up,
    waited,
)
from moa_core.model.target import Target

log = logging.getLogger(__name__)
quiet = logging.getLogger(f"{__name__}.protocol")
quiet.setLevel(logging.CRITICAL)  # else every malformed handshake writes a page into the log
BEAT = 0.3  # seconds between two signs of life
HELLO_WITHIN = 10.0  # seconds for a client to say who it is
WRONG_TOKEN = 0.3  # seconds that a wrong token costs a client
PING = 20.0  # seconds to the next ping, and then for its answer
SEND_WITHIN = 30.0  # seconds for a client to read 64 KiB
CLOSE_WITHIN = 2.0  # seconds for a client to answer a goodbye
MAX_QUEUE = 4  # messages of a client that wait to be read
WAITING = 128  # connections whose client has not said who it is
MOST_UNSENT = 1 << 20  # bytes that a client has caused and does not read
T = TypeVar("T")
END: Any = object()


class Gone(Exception):
    """The client has left."""


class Visitor(ServerConnection):
    """A client's connection, which can make the server hold only so much for it.

    Until let in: MAX_QUEUE + 1 messages of MOST_HELLO bytes; then of MOST_UP. And MOST_UNSENT bytes
    on their way out, such as answers to a flood of pings.
    """

    def __init__(
        self, hall: Hall, protocol: ServerProtocol, server: SocketServer, **options: Any
    ) -> None:
        super().__init__(protocol, server, **options)
        self._hall = hall
        self.protocol.max_message_size = MOST_HELLO

    @property
    def here(self) -> bool:
        """Whether the connection is open."""
        return self.state is State.OPEN

    @property
    def said_goodbye(self) -> bool:
        said = self.protocol.close_rcvd  # close_code is not known before all is over
        return said is not None and said.code == CloseCode.NORMAL_CLOSURE

    def let_in(self) -> None:
        """Its hello was good."""
        self._hall.waiting.pop(self, None)
        self.protocol.max_message_size = MOST_UP

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hall.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hall.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.get_write_buffer_size() > MOST_UNSENT:
            self.transport.abort()
            return
        super().data_received(data)


class Hall:
    """All connections. waiting: at most `most` without a good hello; the oldest has to go."""

    def __init__(self, most: int = WAITING) -> None:
        self._most = most
        self.waiting: dict[Visitor, None] = {}
        self._everyone: set[Visitor] = set()

    def enter(self, visitor: Visitor) -> None:
        self._everyone.add(visitor)
        self.waiting[visitor] = None
        if len(self.waiting) > self._most:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.abort()

    def leave(self, visitor: Visitor) -> None:
        self.waiting.pop(visitor, None)
        self._everyone.discard(visitor)

    def close(self) -> None:
        """Drop all of them."""
        for visitor in list(self._everyone):
            visitor.transport.abort()


class Server:
    """Serves one target. All of its work is done by one thread, a request at a time, in turn.

    Requests are served in order, and each client has at most one in the queue, so each waits for at
    most one step of every other. Clients that have left are skipped.

    drafters  loads the drafter of a name for its server half; UserError if there is none
    token     what clients must say; "": all are let in
    sessions  by name: at most `limits.sessions`, each with at most one connection
    """

    def __init__(
        self, target: Target, drafters: Callable[[str], Drafter], token: str = "",
        limits: Limits | None = None,
    ) -> None:  # fmt: skip
        self.hall = Hall()
        self.sessions: dict[str, Session] = {}
        self._limits = limits or Limits()
        self._target, self._token, self._mark = target, token, target_mark(target)
        self._drafters = Drafters(drafters)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="target")
        self._files, self._packing = WeightFiles(target), asyncio.Lock()

    async def run(self, host: str, port: int, ready: Callable[[int], None]) -> None:
        """Serve until cancelled. ready is told the port, once clients can come."""
        try:
            # Web pages say where they come from; none of them is a client of ours.
            async with serve(
                cast(Any, self.attend), host, port, max_size=MOST_HELLO, max_queue=MAX_QUEUE,
                compression=None, process_request=self._http, server_header=None,
                open_timeout=HELLO_WITHIN, close_timeout=CLOSE_WITHIN, ping_interval=PING,
                ping_timeout=PING, origins=[None], logger=quiet,
                create_connection=cast(Any, partial(Visitor, self.hall)),
            ) as server:  # fmt: skip
                ready(next(iter(server.sockets)).getsockname()[1])
                try:
                    await self.stay_tidy()
                finally:  # a goodbye; but who says or reads nothing is not waited for
                    asyncio.get_running_loop().call_later(CLOSE_WITHIN, self.hall.close)
        finally:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._files.close()

    def _http(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != "/health":
            return None
        clients = f"{len(self.sessions)} sessions, {len(self.hall.waiting)} waiting"
        return connection.respond(HTTPStatus.OK, f"ok: {self._target.name}, {clients}\n")

    async def attend(self, visitor: Visitor) -> None:
        """A client from its hello to its end, request after request."""
        session, refused = None, None
        try:
            hello = await self._hello(visitor)
            async with self._beating(visitor):  # also while a long request is on its way here
                session = await self._session(visitor, hello)
                facts = (self._target.name, self._mark, session.known, session.number)
                await self._send(visitor, Welcome(session.name, *facts))
                while True:
                    await self._answer(visitor, session, await self._request(visitor, session))
        except (ConnectionClosed, Gone):
            pass
        except (Denied, WireError) as error:
            refused = Refused(str(error), isinstance(error, Denied) and error.again)
        except Exception:
            log.exception("a client's request failed")
            refused = Refused("The server failed; its log says why.")
        finally:
            if session is not None and session.visitor is visitor:
                # It outlives a lost connection; after a refusal or a goodbye nothing is kept.
                session.seen, session.visitor = monotonic(), None
                if refused is not None or visitor.said_goodbye:
                    del self.sessions[session.name]
        with suppress(ConnectionClosed, Gone):
            if refused is not None:
                await self._send(visitor, refused)

    async def _hello(self, visitor: Visitor) -> Hello:
        """A client's hello, if it is good: then it is let in."""
        try:
            async with asyncio.timeout(HELLO_WITHIN):
                hello = read_up(await visitor.recv())
        except TimeoutError:
            raise Denied("Nobody said hello.") from None
        if not isinstance(hello, Hello):
            raise Denied("The first message must be a hello.")
        if hello.version != VERSION:
            raise Denied(f"This server speaks version {VERSION}, the client {hello.version}.")
        if not hmac.compare_digest(hello.token.encode(), self._token.encode()):
            await asyncio.sleep(WRONG_TOKEN)
            raise Denied("The token is wrong.")
        visitor.let_in()
        return hello

    async def _session(self, visitor: Visitor, hello: Hello) -> Session:
        """The one that a client goes on with, or a new one; from now on it is this connection's."""
        terms = (hello.drafter, hello.fingerprint, hello.kind)
        session = self.sessions.get(hello.session)
        if session is None or session.terms != terms:
            if hello.drafter not in self._drafters:
                await self._work(visitor, lambda: self._drafters.load(hello.drafter))
            drafter = self._drafters.take(hello.drafter, hello.fingerprint)
            self._make_room()
            name = token_urlsafe(18)
            session = Session(name, self._target, drafter, hello.kind, self._limits, terms)
        if session.visitor is not None:
            session.visitor.transport.abort()  # the client lost it, and has noticed sooner
        session.visitor = visitor
        self.sessions[session.name] = session
        return session

    def _make_room(self) -> None:
        """Free a place: that of the client lost longest. Denied if all clients are connected."""
        if len(self.sessions) < self._limits.sessions:
            return
        # A client may have left though that is not yet noticed: its request is in the queue.
        lost = [one for one in self.sessions.values() if not (one.visitor and one.visitor.here)]
        if not lost:
            places = f"All {self._limits.sessions} places here are taken"
            raise Denied(f"{places}; try again later.", again=True)
        longest = min(lost, key=lambda session: session.seen)
        longest.visitor = None
        del self.sessions[longest.name]

    async def stay_tidy(self) -> None:
        """Free the sessions whose clients have not come back in time, again and again."""
        while True:
            now = monotonic()
            for name, session in list(self.sessions.items()):
                if session.visitor is None and now - session.seen > self._limits.keep:
                    del self.sessions[name]
            await asyncio.sleep(min(1.0, max(self._limits.keep / 4, 0.01)))

    @asynccontextmanager
    async def _beating(self, visitor: Visitor) -> AsyncIterator[None]:
        """Signs of life, which tell a client a slow link from a lost one."""

        async def beat() -> None:
            with suppress(ConnectionClosed, Gone):
                while True:
                    await asyncio.sleep(BEAT)
                    await self._send(visitor, Alive())

        task = asyncio.create_task(beat())
        try:
            yield
        finally:
            task.cancel()

    async def _request(self, visitor: Visitor, session: Session) -> Up:
        try:
            async with asyncio.timeout(self._limits.idle):
                request = read_up(await visitor.recv())
        except TimeoutError:
            raise Denied("Nothing was asked for a long time.", again=True) from None
        session.seen = monotonic()
        return request

    async def _answer(self, visitor: Visitor, session: Session, request: Up) -> None:
        """Make and send one message after the other; between them others have their turn.

        The next one is made when the last one is on its way, so a client that does not read holds
        up only itself.
        """
        messages: Iterator[Any]
        match request:
            case Prefill():
                messages, most = session.prefill(request), request.answers
            case Verify():
                messages, most = map(session.verify, [request]), 1
            case Stream():
                messages, most = session.push(request), request.answers
            case Fetch():
                return await self._give(visitor, request.last)
            case Hello():
                raise Denied("There was a hello before.")
        for _ in range(most):
            began = perf_counter()
            message = await self._work(visitor, lambda: next(messages, END))
            if message is END:
                return
            await self._send(visitor, waited(message, perf_counter() - began))

    async def _give(self, visitor: Visitor, last: int) -> None:
        """The weights a client needs. Nothing of it is the worker's work, nor this thread's."""
        async with self._packing:
            piece, rest = await asyncio.to_thread(self._files.begin, last)
        while piece is not END:
            await self._send(visitor, piece)
            piece = await asyncio.to_thread(lambda: next(rest, END))

    async def _work(self, visitor: Visitor, job: Callable[[], T]) -> T:
        """Run on the worker thread. Gone if the client has left by then."""

        def unless_gone() -> T:
            if not visitor.here:
                raise Gone
            return job()

        return await asyncio.get_running_loop().run_in_executor(self._worker, unless_gone)

    async def _send(self, visitor: Visitor, message: Down) -> None:
        """Gone if the client does not take it: its missed pings do not show while this waits."""
        for frame in frames(message):
            try:
                async with asyncio.timeout(SEND_WITHIN):
                    await visitor.send(frame)
            except TimeoutError:
                visitor.transport.abort()
                raise Gone from None
