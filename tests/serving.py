"""For tests: a server in a thread, one that says anything, and a way that is cut."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from moa_core.drafters.base import Drafter
from moa_core.link.connection import Address
from moa_core.link.server import Server
from moa_core.link.session import Limits
from moa_core.link.wire import MOST_DOWN, VERSION, Alive, Hello, Joiner, encode
from moa_core.target import Target


@contextmanager
def serving(
    target: Target, drafters: Callable[[str], Drafter], token: str = "",
    limits: Limits | None = None, port: int = 0,
) -> Iterator[tuple[Server, int]]:  # fmt: skip
    """A server on loopback: it, and its port."""
    server, loop = Server(target, drafters, token, limits), asyncio.new_event_loop()
    ports: list[int] = []
    ready = threading.Event()

    def told(port: int) -> None:
        ports.append(port)
        ready.set()

    task = loop.create_task(server.run("127.0.0.1", port, told))
    thread = threading.Thread(target=lambda: _until_cancelled(loop, task), name="serving")
    thread.start()
    assert ready.wait(20)
    try:
        yield server, ports[0]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)


def _until_cancelled(loop: asyncio.AbstractEventLoop, task: asyncio.Task) -> None:
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@contextmanager
def scripted(script: Callable[[ServerConnection], None]) -> Iterator[Address]:
    """A server that hears a hello and then does as it is told."""

    def handler(connection: ServerConnection) -> None:
        connection.recv()
        script(connection)

    with serve(handler, "127.0.0.1", 0, compression=None) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield Address(f"ws://127.0.0.1:{one.socket.getsockname()[1]}")
        one.shutdown()


class Caller:
    """A client without a decode loop: says what it is told, and hears the answers.

    hello  more of its first message
    """

    def __init__(self, port: int, token: str = "", **hello: Any) -> None:
        self.sent = self.received = 0  # bytes of messages
        self._joiner = Joiner()
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(
            f"ws://127.0.0.1:{port}", max_size=MOST_DOWN, compression=None, proxy=None,
            ping_interval=None, close_timeout=1,
        ))  # fmt: skip
        self.welcome = self.ask(Hello(**{"version": VERSION, "token": token, **hello}))

    def say(self, message: Any) -> None:
        """A message, or a frame as it is."""
        frame = message if isinstance(message, bytes | str) else encode(message)
        self.sent += len(frame)
        self._socket.send(frame)

    def hear(self, timeout: float = 20.0) -> Any:
        """The next message that says more than that the server is alive."""
        while True:
            frame = self._socket.recv(timeout)
            self.received += len(frame)
            if (message := self._joiner.take(frame)) is not None and message != Alive():
                return message

    def ask(self, message: Any) -> Any:
        """The first answer to it."""
        self.say(message)
        return self.hear()

    def ended(self) -> bool:
        """Whether the server has closed the connection, with nothing more to say."""
        try:
            self.hear()
        except ConnectionClosed:
            return True
        return False

    def vanish(self) -> None:
        """Gone, without a goodbye."""
        with suppress(OSError):
            self._socket.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Gone, with a goodbye."""
        self._open.close()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait until something is so; False if it has not become so in time."""
    ends = monotonic() + seconds
    while not true():
        if monotonic() > ends:
            return False
        sleep(0.01)
    return True


class Way:
    """A way to a port, cut after so many bytes. Nothing goes through until it is mended; then the
    old connections are gone, and what was on its way is lost with them.

    cuts  for each time: (up or down, bytes of that direction since the last time, seconds)
    """

    def __init__(self, port: int, cuts: list[tuple[str, int, float]]) -> None:
        self._to, self._cuts = port, list(cuts)
        self._passed = {"up": 0, "down": 0}
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._pairs: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.made = 0  # cuts made
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._open.set()
        self._drop()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.wait()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._pairs += [near, far]
                for name, one, other in (("up", near, far), ("down", far, near)):
                    threading.Thread(
                        target=self._pass, args=(name, one, other), daemon=True
                    ).start()

    def _pass(self, name: str, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(4096):
                through = self._through(name, len(data))
                other.sendall(data[:through])
                if through < len(data):
                    self._cut()
                    return
            other.shutdown(socket.SHUT_WR)

    def _through(self, name: str, count: int) -> int:
        """How many of these bytes still pass."""
        with self._lock:
            if not self._open.is_set():
                return 0
            self._passed[name] += count
            if not self._cuts or self._cuts[0][0] != name or self._passed[name] < self._cuts[0][1]:
                return count
            self._open.clear()
            return max(count - (self._passed[name] - self._cuts[0][1]) - 1, 0)

    def _cut(self) -> None:
        with self._lock:
            if self._open.is_set() or not self._cuts:
                return
            _, _, seconds = self._cuts.pop(0)
            self.made += 1
        threading.Timer(seconds, self._mend).start()

    def _mend(self) -> None:
        with self._lock:
            self._passed = {"up": 0, "down": 0}
            self._drop()
            self._open.set()

    def _drop(self) -> None:
        for one in self._pairs:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._pairs.clear()
