"""For tests: clients that mean no good, or know no better. Bare sockets: a real client's would
refuse to send such things."""

from __future__ import annotations

import random
import socket
import struct
from contextlib import suppress

from moa_core.link.wire import (
    VERSION,
    Fetch,
    Hello,
    Prefill,
    Stream,
    Verify,
    WireError,
    encode,
    read_up,
)

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PATIENCE = 10.0  # seconds to wait for the server's end of a connection
Frames = list[bytes]


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
    """A connection at TCP's level."""
    one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def reset(one: socket.socket) -> None:
    """Gone at once, with nothing but TCP's reset."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


def read_all(one: socket.socket, got: bytes = b"") -> bytes:
    """What comes, after what has come, until the server closes the connection or says that it will.

    It would wait for our answer to that.
    """
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


def fire(port: int, *parts: bytes, end: str = "theirs") -> bytes:
    """A connection, some bytes, and what comes back until its end. TimeoutError if it has none.

    parts  something is heard between one and the next
    end    "theirs": the server's; or ours, by "reset" or "close"
    """
    got = b""
    with opened(port) as one, suppress(ConnectionError):
        for place, part in enumerate(parts):
            if place:
                got += one.recv(1 << 16)
            one.sendall(part)
        if end == "theirs":
            return read_all(one, got)
        if end == "reset":
            reset(one)
    return got


class Attacker:
    """Makes up connections that end badly, from a seed.

    token  the right one: without it nothing but a hello would be looked at
    """

    KINDS = (
        "garbage", "mangled", "text", "too_long", "protocol", "unfit", "early", "wrong_token",
        "wrong_hello", "vanishing",
    )  # fmt: skip

    def __init__(self, seed: int, token: str, words: int = 280) -> None:
        self.draw = random.Random(seed)
        self.token, self.words = token, words
        self.sent = 0  # malformed or oversized frames, and messages that do not fit

    def attack(self, port: int) -> str:
        """One connection; the name of what was tried. TimeoutError if the server leaves it open."""
        kind = self.draw.choice(self.KINDS)
        frames, end = getattr(self, kind)(), "theirs"
        if kind == "vanishing":
            end = self.draw.choice(["reset", "close"])
        else:
            self.sent += len(frames)
        hello = [] if kind in ("early", "wrong_token", "wrong_hello") else [self.hello()]
        # What comes after the first bad frame is not looked at any more; it must do no harm.
        shots = b"".join(frames)
        try:
            fire(port, UPGRADE, *hello, shots, end=end)
        except TimeoutError:
            raise AssertionError(f"the server does not end this: {kind} {shots[:300]!r}") from None
        return kind

    def hello(self, **changes: object) -> bytes:
        fields = {"version": VERSION, "token": self.token, "drafter": "none"} | changes
        return frame(encode(Hello(**fields)))

    def prompt(self, count: int = 20) -> list[int]:
        return [self.draw.randrange(self.words) for _ in range(count)]

    def garbage(self) -> Frames:
        return [frame(self.draw.randbytes(self.draw.randint(0, 300)))]

    def good(self) -> bytes:
        """A message that would be right."""
        ids = self.prompt()
        return encode(self.draw.choice([
            Prefill(1, ids, 100), Verify(2, 5, ids, list(range(-1, 19))), Stream(3, 5, 7, 9),
            Fetch(0),
        ]))  # fmt: skip

    def mangled(self) -> Frames:
        data = bytearray(self.good())
        for _ in range(self.draw.randint(1, 4)):
            place = self.draw.randrange(len(data))
            if self.draw.random() < 0.5:
                data[place] = self.draw.randrange(256)
            else:
                del data[place : place + self.draw.randint(1, 5)]
        with suppress(WireError):
            read_up(bytes(data))
            data[0] = 0xC1  # it was still right; this byte is never used by MessagePack
        return [frame(bytes(data))]

    def text(self) -> Frames:
        return [frame(b'{"type":"hello"}', opcode=1)]

    def too_long(self) -> Frames:
        size = self.draw.choice([(1 << 20) + 1, 1 << 22, 1 << 31, (1 << 63) - 1])
        return [header(size) + bytes(self.draw.randint(0, 1 << 16))]

    def protocol(self) -> Frames:
        """What WebSocket itself forbids."""
        return self.draw.choice([
            [frame(b"x", masked=False)], [frame(b"x", opcode=3)], [frame(b"x", first=0xC0)],
            [frame(b"x", opcode=0)], [frame(b"x" * 126, opcode=9)],
            [frame(b"x", opcode=9, first=0)], [frame(b"\x00", opcode=8)],
            [frame(b"\xff\xff", opcode=8)], [frame(b"x", first=0), frame(b"y")],
            [frame(b"", first=0)] + [frame(b"", 0, first=0)] * 5000,
            [frame(b"\xff\xfe", opcode=1)],
        ])  # fmt: skip

    def unfit(self) -> Frames:
        """Messages of the right types that ask for what there is not."""
        ids = self.prompt()
        asked = self.draw.choice([
            [Prefill(1, ids, 2**21)], [Prefill(1, [1] * 200_000, 2**21)],
            [Prefill(1, [2**31 - 1], 10)], [Prefill(1, [], 10)], [Prefill(1, ids, 5)],
            [Verify(1, 0, [1], [-1])], [Verify(1, 2**53, [1], [-1])],
            [Prefill(1, ids, 60), Verify(2, 21, [1], [-1])],
            [Prefill(1, ids, 60), Verify(2, 20, [1] * 41, [-1] + [0] * 40)],
            [Prefill(1, ids, 60), Stream(2, 20, 2**31 - 1, 5)],
            [Hello(VERSION, self.token)],
        ])  # fmt: skip
        return [frame(encode(one)) for one in asked]

    def early(self) -> Frames:
        """Something before the hello."""
        return [frame(self.good())]

    def wrong_token(self) -> Frames:
        return [self.hello(token=self.draw.choice(["", "guess", self.token + "x", "\0"]))]

    def wrong_hello(self) -> Frames:
        changes = self.draw.choice([
            {"version": 99}, {"drafter": "../../etc/passwd"}, {"drafter": "moa-n1"},
            {"drafter": "\x1b[31mred\nnext line"}, {"fingerprint": "x"},
        ])  # fmt: skip
        return [frame(bytes(5000)) if self.draw.random() < 0.3 else self.hello(**changes)]

    def vanishing(self) -> Frames:
        """A good client, which is gone before, or while, it is answered."""
        prompt = Prefill(1, self.prompt(200), 255)
        return [frame(encode(prompt)), frame(encode(Stream(2, 200, 7, 50)))]


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
    UPGRADE.replace(b"Host: here", b"Host: here\r\nOrigin: https://elsewhere.example"),
    UPGRADE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"short"),
)
