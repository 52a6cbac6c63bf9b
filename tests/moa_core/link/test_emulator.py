"""The emulated link: its settings; when messages come out, by sums done by hand."""

import threading
from queue import Queue
from time import monotonic
from typing import Any

import pytest

from moa_core.errors import UserError
from moa_core.link import emulator
from moa_core.link.emulator import DOWN, PRESETS, UP, Delayed, Link, LinkSettings, link


class Echo:
    """Stands in for a connection to a server that sends everything back."""

    def __init__(self) -> None:
        self.seen: Queue[Any] = Queue()
        self.sent: list[bytes] = []
        self.goodbye = threading.Event()

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)
        self.seen.put(frame)

    def recv(self) -> bytes:
        if (frame := self.seen.get()) is None:
            raise EOFError
        return frame

    def close(self) -> None:
        self.goodbye.set()
        self.seen.put(None)


def joined(made: Link) -> tuple[Echo, Delayed]:
    echo = Echo()
    return echo, made.connect(lambda within: echo, 10)


def releases(text: str, sizes: list[int], direction: str = UP) -> list[float]:
    made = Link(link(text))
    return [made.release(direction, size) for size in sizes]


def test_a_message_takes_its_time_on_the_line_and_half_a_round_trip(monkeypatch):
    monkeypatch.setattr(emulator, "monotonic", lambda: 0.0)
    # 1 Mbit/s carries 1000 bytes in 8 ms; the second message waits for the first.
    text = "rtt=100,up=1,down=2"
    assert releases(text, [1000, 500]) == pytest.approx([0.058, 0.062])
    assert releases(text, [1000], DOWN) == pytest.approx([0.054])
    # Jitter is the standard deviation of the round trip, of which each way has its part.
    times = releases("rtt=100,jitter=10", [0] * 4000)
    mean = sum(times) / len(times)
    spread = (sum((time - mean) ** 2 for time in times) / len(times)) ** 0.5
    assert mean == pytest.approx(0.05, rel=0.02)
    assert spread == pytest.approx(0.01 / 2**0.5, rel=0.1)
    assert min(releases("rtt=1,jitter=50", [0] * 100)) == 0.0


def test_messages_come_in_order_and_none_before_its_time():
    _, near = joined(Link(LinkSettings(rtt=20, jitter=20)))
    began = monotonic()
    frames = [bytes([number]) for number in range(30)]
    for frame in frames:
        near.send(frame)
    assert [near.recv(10) for _ in frames] == frames
    assert monotonic() - began > 0.01
    with pytest.raises(TimeoutError):
        near.recv(0.01)


def test_a_goodbye_comes_after_all_earlier_messages():
    echo, near = joined(Link(LinkSettings(rtt=4)))
    near.send(b"before")
    near.close()
    assert echo.goodbye.wait(10) and echo.sent == [b"before"]
    assert near.recv(10) == b"before"
    with pytest.raises(EOFError):
        near.recv(10)


def test_a_link_is_a_preset_or_figures():
    for name, settings in PRESETS.items():
        assert link(name) is settings and settings.name == name and settings.title
        assert link(settings.spec).spec == settings.spec
    assert link("rtt=60, jitter=15,down=9,up=1.5") == LinkSettings(60, 15, 9, 1.5)
    assert link("rtt=0.1,down=1e3,up=0.123456789").spec == "rtt=0.1,down=1000,up=0.123456789"


@pytest.mark.parametrize(
    "text",
    ["6g", "", "rtt=60,ping=3", "rtt=60,4g", "rtt=fast", "rtt=-1", "rtt=nan", "down=0", "up=inf"],
)
def test_nonsense_is_refused_with_a_sentence(text):
    with pytest.raises(UserError, match="No link is called") as caught:
        link(text)
    assert all(name in str(caught.value) for name in PRESETS)
