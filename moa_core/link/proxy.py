"""An emulated link under a real socket: a proxy between client and server that delays and cuts.

The client connects to the proxy's port instead of the server's. Every byte goes through, in order,
when `moa_core.link.delays` says. As a program:

    python -m moa_core.link.proxy --to 127.0.0.1:9000 --port 9001 --link 4g --seed 0

which then takes commands, one a line, on its standard input (see `moa_core.link.program`), and

    python -m moa_core.link.proxy --check

which measures every preset and prints what was asked and what came out.
"""

from __future__ import annotations

import asyncio
import copy
import select
import selectors
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from moa_core.errors import UserError
from moa_core.link.gate import Gate, Passage, Traffic
from moa_core.link.network import LinkSettings
from moa_core.link.pipes import Connection


class Proxy:
    """A link to a server, in a thread of its own. `with Proxy(...) as proxy: proxy.port`.

    Every connection goes over the same link and shares its bandwidth. Only this machine's programs
    reach it, unless `host` says otherwise. Python threads take turns, 5 ms each: beside one that
    computes without pause a round trip of 20 ms became one of 42. Where delays matter, or the
    process computes, use `moa_core.link.program.ProxyProgram`.

    During a cut nothing comes out, at either end, and new connections hang: the system accepts
    them, but no byte is answered and the server does not see them. After `restore` what was on its
    way or was written meanwhile is sent again, in order, as TCP does, with half a round trip to go.
    """

    def __init__(
        self,
        target_host: str,
        target_port: int,
        settings: LinkSettings,
        seed: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port  # 0: a free one, known after the start
        self._target = (target_host, target_port)
        self._gate = Gate(settings, seed)
        self._connections: set[Connection] = set()
        self._doomed: set[Connection] = set()  # closed when the link returns
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen. UserError if the port is taken."""
        if self._thread:
            raise RuntimeError("this proxy was started before")
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._in_loop(self._listen)
        except (OSError, OverflowError) as error:
            self.stop()
            raise UserError(f"Cannot listen on {self.host}, port {self.port}: {error}.") from None

    def stop(self) -> None:
        """Close every connection and the port. Twice is once."""
        loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def cut(self, drop: bool = False) -> None:
        """No byte comes out any more once this has returned.

        drop: the connections that exist now are lost, as after a cut too long for TCP or a change
        of address; their ends learn of it, by a reset, when the link returns.
        """
        self._in_loop(lambda: self._change(cut=True, drop=drop))

    def restore(self) -> None:
        """The link is back."""
        self._in_loop(lambda: self._change(cut=False))

    @property
    def is_cut(self) -> bool:
        """Whether `cut` was the last word. A link whose settings are offline passes nothing too."""
        return self._gate.cut

    @property
    def settings(self) -> LinkSettings:
        """What the link is like; a new value holds for bytes that enter after it."""
        return self._gate.settings

    @settings.setter
    def settings(self, settings: LinkSettings) -> None:
        self._in_loop(lambda: self._change(settings=settings))

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._connections)

    def traffic(self) -> dict[str, Traffic]:
        """Counters by direction, "up" and "down"."""
        traffic: dict[str, Traffic] = self._in_loop(lambda: copy.deepcopy(self._gate.traffic))
        return traffic

    def log(self, since: float = 0.0) -> list[Passage]:
        """The newest LOG_LENGTH passages that came out after that time, oldest first."""
        passed: list[Passage] = self._in_loop(
            lambda: [entry for entry in self._gate.log if entry.time + entry.delay > since]
        )
        return passed

    def now(self) -> float:
        """Seconds on the log's clock."""
        return self._gate.now()

    def _in_loop(self, work: Callable[[], Any]) -> Any:
        """Do it in the proxy's thread and wait for it; what has ended is only read."""
        if self._loop is None:
            return work()
        done: Future[Any] = Future()

        async def run() -> None:
            try:
                result = work()
                done.set_result(await result if asyncio.iscoroutine(result) else result)
            except BaseException as error:
                done.set_exception(error)

        asyncio.run_coroutine_threadsafe(run(), self._loop)
        return done.result()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self) -> asyncio.Protocol:
        connection = Connection(self._gate, self._reach, self._forget)
        self._connections.add(connection)
        return connection.client

    async def _reach(self, end: asyncio.Protocol) -> None:
        await asyncio.get_running_loop().create_connection(lambda: end, *self._target)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._doomed.discard(connection)

    def _change(
        self, cut: bool | None = None, drop: bool = False, settings: LinkSettings | None = None
    ) -> None:
        before = self._gate.passing
        if settings is not None:
            self._gate.settings = settings
            for connection in self._connections:
                for pipe in connection.pipes.values():
                    pipe.delays.settings = settings
        self._gate.cut = self._gate.cut if cut is None else cut
        if drop:
            self._doomed |= self._connections
        if before and not self._gate.passing:
            self._each(lambda pipe: pipe.hold())
        elif self._gate.passing and not before:
            self._resume()

    def _resume(self) -> None:
        for connection in self._doomed:
            connection.abort()
        self._doomed.clear()
        self._gate.clear_lines()
        self._each(lambda pipe: pipe.resend())

    def _each(self, act: Callable[[Any], None]) -> None:
        for connection in list(self._connections):
            for pipe in connection.pipes.values():
                act(pipe)

    async def _close(self) -> None:
        if self._server:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the loop's next turn


class _FineSelector(selectors.DefaultSelector):
    """epoll waits whole ms, rounded up; select on epoll's own descriptor waits to the µs."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout and timeout > 0 and self.fileno() < 1024:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def _new_loop() -> asyncio.AbstractEventLoop:
    if selectors.DefaultSelector is getattr(selectors, "EpollSelector", None):
        return asyncio.SelectorEventLoop(_FineSelector())
    return asyncio.new_event_loop()


if __name__ == "__main__":
    from moa_core.link.program import main

    sys.exit(main())
