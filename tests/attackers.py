"""Hostile clients, over bare sockets: a real client would refuse to send such things."""

import socket
import struct
from contextlib import suppress

from moa_core.link.wire import VERSION, Hello, encode

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PATIENCE = 10.0  # seconds to wait for the server's end of a connection


def hello(token: str, **changes: object) -> bytes:
    fields = {"version": VERSION, "token": token, "drafter": "none"} | changes
    return frame(encode(Hello(**fields)))


def frame(data: bytes, opcode: int = 2, first: int = 0x80, masked: bool = True) -> bytes:
    """A WebSocket frame. first: FIN and the reserved bits. The mask is 0: bytes as they are."""
    return header(len(data), opcode, first, masked) + data


def header(size: int, opcode: int = 2, first: int = 0x80, masked: bool = True) -> bytes:
    """Its header alone, which may promise more than comes."""
    bit = 0x80 if masked else 0
    if size < 126:
        length = struct.pack("!B", bit | size)
    elif size < 1 << 16:
        length = struct.pack("!BH", bit | 126, size)
    else:
        length = struct.pack("!BQ", bit | 127, size)
    return bytes([first | opcode]) + length + (bytes(4) if masked else b"")


def opened(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def read_all(one: socket.socket, got: bytes = b"") -> bytes:
    """Read on until the server closes the connection or sends a close frame."""
    with suppress(ConnectionError):
        while not closing(got) and (data := one.recv(1 << 16)):
            got += data
    return got


def closing(got: bytes) -> bool:
    """Whether a server's frames end with the one that closes."""
    head, _, rest = got.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 101") and len(rest) >= 2:
        size, start = rest[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(rest[2:start], "big")
        if rest[0] & 15 == 8:
            return len(rest) >= start + size
        rest = rest[start + size :]
    return False


def fire(port: int, *parts: bytes) -> bytes:
    """What comes back until the server ends, TimeoutError if it never does. Something is heard
    between one part and the next."""
    got = b""
    with opened(port) as one, suppress(ConnectionError):
        for place, part in enumerate(parts):
            if place:
                got += one.recv(1 << 16)
            one.sendall(part)
        return read_all(one, got)
    return got


FORBIDDEN = (
    b"\0" * 100 + b"\r\n\r\n",
    b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"y" * 10_000 + b"\r\n\r\n",
    b"POST /health HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /health HTTP/1.1\r\nHost: here\r\nContent-Length: 99999999999\r\n\r\n",
    b"GET /\x1b[31mred\r\n2026-01-01 all is well HTTP/1.1\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: here\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n",  # TLS
    UPGRADE.replace(b"Version: 13", b"Version: 12"),
    UPGRADE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"short"),
)
