"""For tests: a process with a page, a server in a thread, one that says anything, a cut link."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from moa_core.drafters.base import Drafter
from moa_core.link.connection import Address
from moa_core.link.emulator import Link, LinkSettings
from moa_core.link.server import Server
from moa_core.link.session import Limits
from moa_core.link.wire import MOST_DOWN, VERSION, Alive, Hello, Joiner, encode
from moa_core.model.target import Target

FAST = LinkSettings(rtt=2, down=400, up=400)


def fetched(request: str | urllib.request.Request, timeout: float = 20) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(request, timeout=timeout)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def page_of(command: list[Any], port: int, log: Path, **how: Any) -> Iterator[str]:
    """The address of a process's page, once it is there; with the log if it never is."""
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, **how)
    url = f"http://127.0.0.1:{port}/"

    def there() -> bool:
        with suppress(OSError), fetched(url) as answer:
            return b"Mixture of Attentions" in answer.read()
        return process.poll() is not None

    try:
        if not until(there, 120) or process.poll() is not None:
            pytest.fail(f"the page did not start:\n{log.read_text()[-3000:]}")
        yield url
    finally:
        process.terminate()
        process.wait(30)
        with suppress(ProcessLookupError):  # what it forked does not end with it
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def serving(
    target: Target, drafters: Callable[[str], Drafter], token: str = "",
    limits: Limits | None = None, port: int = 0,
) -> Iterator[tuple[Server, int]]:  # fmt: skip
    server = Server(target, drafters, token, limits)
    ready: Future[int] = Future()  # the port
    ends: list[Callable[[], object]] = []

    async def run() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        ends.append(lambda: loop.call_soon_threadsafe(task.cancel))
        with suppress(asyncio.CancelledError):
            await server.run("127.0.0.1", port, ready.set_result)

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="serving")
    thread.start()
    try:
        yield server, ready.result(20)
    finally:
        ends[0]()
        thread.join(20)


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


class Caller(ExitStack):
    """A client without a decode loop: says what it is told, and hears the answers."""

    def __init__(self, port: int, token: str = "", **hello: Any) -> None:
        super().__init__()
        self.port, self._joiner = port, Joiner()
        self._socket = self.enter_context(connect(
            f"ws://127.0.0.1:{port}", max_size=MOST_DOWN, compression=None, proxy=None,
            ping_interval=None, close_timeout=1,
        ))  # fmt: skip
        self.welcome = self.ask(Hello(**{"version": VERSION, "token": token, **hello}))

    def say(self, message: Any) -> None:
        self._socket.send(message if isinstance(message, bytes | str) else encode(message))

    def hear(self, timeout: float = 20.0) -> Any:
        """The next message that says more than that the server is alive."""
        while True:
            message = self._joiner.take(self._socket.recv(timeout))
            if message is not None and message != Alive():
                return message

    def ask(self, message: Any) -> Any:
        self.say(message)
        return self.hear()

    def ended(self) -> bool:
        try:
            self.hear()
        except ConnectionClosed:
            return True
        return False

    def vanish(self) -> None:
        with suppress(OSError):
            self._socket.socket.shutdown(socket.SHUT_RDWR)


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    ends = monotonic() + seconds
    while not true():
        if monotonic() > ends:
            return False
        sleep(0.01)
    return True


class CutLink(Link):
    """A link with cuts, for each: (up or down, messages that way since the last one, seconds).

    During a cut nothing passes, and new connections hang. Then all messages in transit arrive in
    order, half a round trip later.
    """

    def __init__(self, cuts: list[tuple[str, int, float]], settings: LinkSettings = FAST) -> None:
        super().__init__(settings)
        self._cuts, self._passed = list(cuts), Counter[str]()
        self._whole = threading.Event()
        self._whole.set()

    def connect(self, open_socket: Callable[[float], Any], within: float) -> Any:
        if not self._whole.wait(within):
            raise TimeoutError("nothing came over the link")
        return super().connect(open_socket, within)

    def release(self, direction: str, size: int) -> float:
        self._passed[direction] += 1
        due = self._cuts and self._whole.is_set()
        if due and self._passed[self._cuts[0][0]] >= self._cuts[0][1]:
            _, _, seconds = self._cuts.pop(0)
            self._whole.clear()
            threading.Timer(seconds, self._mend).start()
        return super().release(direction, size)

    def wait(self, due: float) -> None:
        super().wait(due)
        while not self._whole.is_set():
            self._whole.wait()
            sleep(self.half)

    def _mend(self) -> None:
        self._passed.clear()
        self._whole.set()
