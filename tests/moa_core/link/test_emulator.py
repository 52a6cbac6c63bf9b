"""The emulated link: its settings; when messages come out, by sums done by hand; cuts."""

import dataclasses
import math
import threading
from queue import Queue
from random import Random
from time import monotonic
from typing import Any

import pytest

from moa_core.errors import UserError
from moa_core.link import emulator
from moa_core.link.emulator import (
    DEFAULT,
    DOWN,
    PRESETS,
    RESEND,
    UP,
    Delayed,
    Link,
    LinkSettings,
    link,
)


class Echo:
    """Stands in for a connection to a server that sends everything back."""

    def __init__(self) -> None:
        self.seen: Queue[Any] = Queue()
        self.goodbye = threading.Event()
        self.socket = self

    def send(self, frame: bytes) -> None:
        self.seen.put(frame)

    def recv(self) -> bytes:
        if (frame := self.seen.get(timeout=20)) is None:
            raise EOFError
        return frame

    def close(self) -> None:
        self.goodbye.set()
        self.seen.put(None)

    def shutdown(self, how: int) -> None:
        self.seen.put(None)


def joined(made: Link) -> tuple[Echo, Delayed]:
    echo = Echo()
    return echo, made.connect(lambda within: echo, 10)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands at 0."""
    monkeypatch.setattr(emulator, "monotonic", lambda: 0.0)


def releases(text: str, sizes: list[int], direction: str = UP, seed: int = 0) -> list[float]:
    made, draw = Link(link(text)), Random(seed)
    return [made.release(direction, size, draw) for size in sizes]


def test_a_message_takes_its_time_on_the_line_and_half_a_round_trip(still: None) -> None:
    # 1 Mbit/s carries 1000 bytes in 8 ms; the second message waits for the first.
    text = "rtt=100,up=1,down=2"
    assert releases(text, [1000, 500]) == pytest.approx([0.058, 0.062])
    assert releases(text, [1000], DOWN) == pytest.approx([0.054])


def test_jitter_is_the_standard_deviation_of_the_round_trip(still: None) -> None:
    up = releases("rtt=100,jitter=10", [0] * 4000, seed=1)
    down = releases("rtt=100,jitter=10", [0] * 4000, DOWN, seed=2)
    trips = [one + other for one, other in zip(up, down, strict=True)]
    mean = sum(trips) / len(trips)
    spread = (sum((trip - mean) ** 2 for trip in trips) / len(trips)) ** 0.5
    assert mean == pytest.approx(0.1, rel=0.02) and spread == pytest.approx(0.01, rel=0.1)
    assert min(releases("rtt=1,jitter=50", [0] * 100)) == 0.0
    one, same, other = (releases("rtt=9,jitter=5", [9] * 9, seed=seed) for seed in (1, 1, 2))
    assert one == same != other


def test_a_lost_packet_stalls_its_message(still: None) -> None:
    times = releases("rtt=100,loss=0.1,up=100000", [100] * 4000)
    share = sum(time > RESEND for time in times) / len(times)
    assert share == pytest.approx(0.1, rel=0.2)
    assert any(time == pytest.approx(0.05 + 3 * RESEND, abs=0.01) for time in times), "lost twice"
    long = releases("rtt=100,loss=0.1,up=100000", [14_000] * 400)  # ten packets
    assert sum(time > RESEND for time in long) / len(long) == pytest.approx(1 - 0.9**10, rel=0.1)


def test_messages_come_in_order_and_none_before_its_time() -> None:
    with Link(LinkSettings(rtt_ms=20, jitter_ms=20)) as made:
        _, near = joined(made)
        began = monotonic()
        frames = [bytes([number]) for number in range(30)]
        for frame in frames:
            near.send(frame)
        assert [near.recv(10) for _ in frames] == frames
        assert monotonic() - began > 0.01
        with pytest.raises(TimeoutError):
            near.recv(0.01)


def test_during_a_cut_nothing_passes_and_afterwards_everything_does() -> None:
    with Link(LinkSettings(rtt_ms=4)) as made:
        echo, near = joined(made)
        near.send(b"before")
        made.cut()
        near.send(b"meanwhile")
        with pytest.raises(TimeoutError):
            near.recv(0.1)
        echo.seen.put(b"of the server's own")
        with pytest.raises(TimeoutError):
            near.recv(0.05)
        made.restore()
        came = {near.recv(10) for _ in range(3)}
        assert came == {b"before", b"meanwhile", b"of the server's own"}


def test_a_new_connection_hangs_until_the_link_is_back() -> None:
    with Link(LinkSettings(rtt_ms=2)) as made, Link(link("offline")) as never:
        made.cut()
        never.restore()
        for one in (made, never):
            with pytest.raises(TimeoutError):
                one.connect(lambda within: Echo(), 0.05)
        threading.Timer(0.1, made.restore).start()
        _, near = joined(made)
        near.send(b"hello")
        assert near.recv(10) == b"hello"


@pytest.mark.parametrize("cut", [False, True])
def test_a_goodbye_reaches_the_server_unless_the_link_is_cut(cut: bool) -> None:
    with Link(LinkSettings(rtt_ms=4)) as made:
        echo, near = joined(made)
        near.send(b"last words")
        if cut:
            made.cut()
        near.close()
    assert echo.goodbye.wait(0.2) is not cut
    with pytest.raises(EOFError):
        near.recv(1)
    with pytest.raises(EOFError):
        joined(made)


def test_that_the_server_has_gone_is_heard_late() -> None:
    with Link(LinkSettings(rtt_ms=4)) as made:
        echo, near = joined(made)
        made.cut()
        echo.seen.put(None)
        with pytest.raises(TimeoutError):
            near.recv(0.05)
        made.restore()
        with pytest.raises(EOFError):
            near.recv(10)


# ---- settings ----


def test_presets_each_with_its_source() -> None:
    assert DEFAULT in PRESETS
    for name, settings in PRESETS.items():
        assert link(name) is settings and settings.name == name
        # All but offline have a figure that no source states.
        assert ("our choice" in settings.source) is not settings.offline
    assert link("Slow_4G") is link(" slow 4g ") is PRESETS["slow-4g"]
    assert link("starlink") is PRESETS["satellite"] and link("offline").offline


def test_a_link_of_ones_own() -> None:
    settings = link("rtt=60, jitter=15,down=9,up=1.5,loss=0.01")
    assert settings == LinkSettings(60, 15, 9, 1.5, 0.01)
    assert settings.name == "custom" and "own choice" in settings.source
    settings = link("4g,loss=0.02,rtt=100")
    assert (settings.rtt_ms, settings.loss, settings.up_mbps) == (100, 0.02, 1.5)
    assert settings.name == "4g,loss=0.02,rtt=100"
    assert settings.source.startswith(PRESETS["4g"].source) and "by hand" in settings.source
    for text in (*PRESETS, "rtt=0.1,down=1e3,up=0.123456789"):  # written down and read again
        settings = link(text)
        named = {"name": settings.name, "source": settings.source}
        assert settings.offline or dataclasses.replace(link(settings.spec), **named) == settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("6g", "No link is called '6g'"), ("", "No link is called ''"),
        ("rtt=60,ping=3", "'ping=3'"), ("rtt=60,4g", "'4g'"), ("rtt=fast", "'fast'"),
        ("rtt=-1", "from 0 to 10000, not -1"), ("rtt=nan", "not nan"), ("down=0", "down of a link"),
        ("up=inf", "up of a link"), ("loss=1.5", "from 0 to 1"), ("rtt=1,rtt=2", "twice"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        link(text)
    assert said in str(caught.value)
    if "called" in said or "ping" in text:
        assert all(name in str(caught.value) for name in PRESETS)


@pytest.mark.parametrize("value", [math.nan, -1, "60", None, True])
def test_settings_check_themselves(value: object) -> None:
    with pytest.raises(UserError, match="rtt of a link"):
        LinkSettings(rtt_ms=value)  # type: ignore[arg-type]
