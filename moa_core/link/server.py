"""The server: a target for many clients, over WebSockets. GET /health says that it is up."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from secrets import token_urlsafe
from time import monotonic, perf_counter
from typing import Any, TypeVar, cast

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from moa_core.drafters.base import Drafter
from moa_core.link.client_weights import WeightFiles, target_mark
from moa_core.link.session import Denied, Limits, Session
from moa_core.link.sessions import Drafters, Sessions
from moa_core.link.visitor import Gone, Visitor, WaitingRoom, visiting
from moa_core.link.wire import (
    MOST_HELLO,
    VERSION,
    Alive,
    Down,
    Fetch,
    Hello,
    Prefill,
    Refused,
    Stream,
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
WRONG_TOKEN = 0.3  # seconds that whoever guesses tokens waits for each
PING = 20.0  # seconds to the next ping, and then for its answer
SEND_WITHIN = 30.0  # seconds for a client to read 64 KiB
CLOSE_WITHIN = 2.0  # seconds for a client to answer a goodbye
MAX_QUEUE = 4  # messages of a client that wait to be read
T = TypeVar("T")
END: Any = object()


class Server:
    """Serves one target. All of its work is done by one thread, a request at a time, in turn.

    What is asked is done in the order of asking, and nobody has more than one request in the
    queue: so each waits for at most one step of every other. Whoever has left when their turn
    comes is passed over.

    drafters  loads the drafter of a name for its server half; UserError if there is none
    token     what clients must say; "": anybody may come in
    """

    def __init__(
        self,
        target: Target,
        drafters: Callable[[str], Drafter],
        token: str = "",
        limits: Limits | None = None,
    ) -> None:
        self.waiting = WaitingRoom()
        self._limits = limits or Limits()
        self._table = Sessions(self._limits)
        self.sessions = self._table.by_name
        self._target, self._token = target, token
        self._mark = target_mark(target)
        self._drafters = Drafters(drafters)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="target")
        self._files, self._packing = WeightFiles(target), asyncio.Lock()

    async def run(
        self, host: str, port: int, ready: Callable[[int], None] = lambda port: None
    ) -> None:
        """Serve until cancelled. ready is told the port, once clients can come."""
        try:
            # Web pages say where they come from; none of them is a client of ours.
            async with serve(
                cast(Any, self._client), host, port, max_size=MOST_HELLO, max_queue=MAX_QUEUE,
                compression=None, process_request=self._http, server_header=None,
                open_timeout=HELLO_WITHIN, close_timeout=CLOSE_WITHIN, ping_interval=PING,
                ping_timeout=PING, origins=[None], logger=quiet,
                create_connection=cast(Any, visiting(self.waiting)),
            ) as server:  # fmt: skip
                ready(next(iter(server.sockets)).getsockname()[1])
                try:
                    await self._table.stay_tidy()
                finally:  # a goodbye; but who says or reads nothing is not waited for
                    asyncio.get_running_loop().call_later(CLOSE_WITHIN, self.waiting.close)
        finally:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._files.close()

    def _http(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/health":
            clients = f"{len(self.sessions)} sessions, {len(self.waiting)} waiting"
            return connection.respond(HTTPStatus.OK, f"ok: {self._target.name}, {clients}\n")
        return None

    # ---- a client, from its first word to its end ----

    async def _client(self, visitor: Visitor) -> None:
        session: Session | None = None
        try:
            session = await self._enter(visitor)
            await self._serve(visitor, session)
        except (ConnectionClosed, Gone):
            pass
        except (Denied, WireError) as error:
            again = isinstance(error, Denied) and error.again
            await self._send_away(visitor, session, Refused(str(error), again))
        except Exception:
            log.exception("a client's request failed")
            refused = Refused("The server failed; its log says why.")
            await self._send_away(visitor, session, refused)
        finally:
            if session is not None:
                self._left(visitor, session)

    async def _send_away(self, visitor: Visitor, session: Session | None, refused: Refused) -> None:
        """Say why. Nothing is kept for a client that may not go on."""
        if session is not None and self._table.has(session, visitor):
            self._table.free(session)
        with suppress(ConnectionClosed, Gone):
            await self._send(visitor, refused)

    def _left(self, visitor: Visitor, session: Session) -> None:
        """A session outlives its connection, unless the client said goodbye."""
        said = visitor.protocol.close_rcvd  # close_code is not known before all is over
        goodbye = said is not None and said.code == CloseCode.NORMAL_CLOSURE
        if goodbye and self._table.has(session, visitor):
            self._table.free(session)
        self._table.leave(session, visitor)

    async def _enter(self, visitor: Visitor) -> Session:
        """Let a client in whose hello is good."""
        try:
            async with asyncio.timeout(HELLO_WITHIN):
                hello = await self._receive(visitor)
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
        async with self._beating(visitor):
            return await self._session(visitor, hello)

    async def _session(self, visitor: Visitor, hello: Hello) -> Session:
        """The one that a client goes on with, or a new one."""
        terms = (hello.drafter, hello.fingerprint, hello.kind)
        session = self.sessions.get(hello.session)
        if session is None or session.terms != terms:
            if hello.drafter not in self._drafters:
                await self._work(visitor, lambda: self._drafters.fetch(hello.drafter))
            drafter = self._drafters.take(hello.drafter, hello.fingerprint)
            self._table.make_room()
            name = token_urlsafe(18)
            session = Session(name, self._target, drafter, hello.kind, self._limits, terms)
        self._table.take(session, visitor)
        known, number = session.known, session.number
        try:
            welcome = Welcome(session.name, self._target.name, self._mark, known, number)
            await self._send(visitor, welcome)
        except BaseException:
            self._left(visitor, session)
            raise
        return session

    # ---- what it asks, and the answers ----

    async def _serve(self, visitor: Visitor, session: Session) -> None:
        async with self._beating(visitor):  # also while a long request is still on its way here
            while True:
                try:
                    async with asyncio.timeout(self._limits.idle):
                        request = await self._receive(visitor)
                except TimeoutError:
                    raise Denied("Nothing was asked for a long time.", again=True) from None
                session.seen = monotonic()
                await self._answer(visitor, session, request)

    @asynccontextmanager
    async def _beating(self, visitor: Visitor) -> AsyncIterator[None]:
        """Signs of life, by which a client knows a slow link from a lost one."""

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

    async def _answer(self, visitor: Visitor, session: Session, request: Any) -> None:
        match request:
            case Prefill():
                await self._each(visitor, session.prefill(request), request.answers)
            case Verify():
                began = perf_counter()
                answer = await self._work(visitor, lambda: session.verify(request))
                await self._send(visitor, waited(answer, perf_counter() - began))
            case Stream():
                await self._each(visitor, session.push(request), request.answers)
            case Fetch():
                await self._give(visitor, request.last)
            case Hello():
                raise Denied("There was a hello before.")

    async def _each(self, visitor: Visitor, messages: Iterator[Any], most: int) -> None:
        """Make and send one message after the other; between them others have their turn.

        The next one is not made before the last one is on its way: a client that does not read
        holds up nobody but itself, for a while.
        """
        began = perf_counter()
        for _ in range(most):
            message = await self._work(visitor, lambda: next(messages, END))
            if message is END:
                return
            await self._send(visitor, waited(message, perf_counter() - began))
            began = perf_counter()

    async def _give(self, visitor: Visitor, last: int) -> None:
        """The weights a client needs. Nothing of it is the worker's work, nor this thread's."""
        async with self._packing:
            piece, rest = await asyncio.to_thread(self._files.begin, last)
        while piece is not END:
            await self._send(visitor, piece)
            piece = await asyncio.to_thread(lambda: next(rest, END))

    async def _work(self, visitor: Visitor, job: Callable[[], T]) -> T:
        """Have the worker do it, when its turn comes. Gone if nobody waits for it then."""

        def unless_gone() -> T:
            if not visitor.here:
                raise Gone
            return job()

        return await asyncio.get_running_loop().run_in_executor(self._worker, unless_gone)

    async def _receive(self, visitor: Visitor) -> Any:
        return read_up(await visitor.recv())

    async def _send(self, visitor: Visitor, message: Down) -> None:
        """Gone if the client does not take it: its missed pings do not show while this waits."""
        for frame in frames(message):
            try:
                async with asyncio.timeout(SEND_WITHIN):
                    await visitor.send(frame)
            except TimeoutError:
                visitor.transport.abort()
                raise Gone from None
