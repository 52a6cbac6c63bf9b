"""A client's socket, a server's, and an emulated link between them; and what to do with sockets."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moa_core.link.network import LinkSettings, link
from moa_core.link.proxy import Proxy

FAST = link("rtt=2,down=400,up=400")
ROUGH = link("rtt=4,jitter=4,down=80,up=40,loss=0.02")
WAIT = 20  # seconds: a test that waits so long has failed


class Ends:
    """A client's socket, the server's, and the link between them."""

    def __init__(self, settings: LinkSettings, seed: int = 0) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT)
        self.proxy = Proxy(*self.listener.getsockname(), settings, seed)
        self.proxy.start()
        self._open: list[socket.socket] = [self.listener]

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.proxy.port), timeout=WAIT)
        self._open.append(client)
        return client

    def accept(self) -> socket.socket:
        server, _ = self.listener.accept()
        server.settimeout(WAIT)
        self._open.append(server)
        return server

    def pair(self) -> tuple[socket.socket, socket.socket]:
        return self.connect(), self.accept()

    def close(self) -> None:
        self.proxy.stop()
        for end in self._open:
            end.close()


@contextmanager
def joined(settings: LinkSettings = FAST, seed: int = 0) -> Iterator[Ends]:
    ends = Ends(settings, seed)
    try:
        yield ends
    finally:
        ends.close()


def take(end: socket.socket, size: int) -> bytes:
    """Exactly so many bytes, or what came before the other end closed."""
    parts = bytearray()
    while len(parts) < size and (part := end.recv(size - len(parts))):
        parts += part
    return bytes(parts)


def silent(end: socket.socket, seconds: float = 0.15) -> bool:
    """Whether nothing comes for so long, the connection's end included."""
    end.settimeout(seconds)
    try:
        end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(WAIT)
    return False


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def send_in_pieces(end: socket.socket, data: bytes, seed: int) -> None:
    draw, at = random.Random(seed), 0
    while at < len(data):
        size = draw.choice([1, 7, 64, 1400, 5000, 70_000])
        end.sendall(data[at : at + size])
        at += size


def some_bytes(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(WAIT * 100):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("waited in vain")
