"""The client's end: servers that are slow, busy, or none of ours; and the emulated link."""

import threading
from queue import Queue
from time import monotonic, sleep
from typing import Any

import pytest
import torch
from websockets.sync.server import ServerConnection

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verifier import LinkLost
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link import emulator, wire
from moa_core.link import server as servers
from moa_core.link.client_weights import client_target
from moa_core.link.connection import Address, Wire
from moa_core.link.emulator import DOWN, PRESETS, UP, Delayed, Link, LinkSettings, link
from moa_core.link.remote import Remote
from moa_core.link.session import drafter_mark
from moa_core.link.wire import pack
from tests.moa_core.link.scene import TARGET, WELCOME
from tests.models import useful
from tests.serving import Caller, scripted, serving, until

HELLO = wire.Hello(wire.VERSION)
LONG = wire.Answer(1, [5], [0.5], [1.0], pack({"x": torch.randn(2500)}, "f32"), 0.1)


def test_a_long_answer_over_a_slow_link_is_no_silence(monkeypatch):
    """But silence in the middle of it is; and a busy server's welcome is waited for."""
    monkeypatch.setattr(wire, "PART", 2000)
    told = threading.Event()

    def slowly(connection: ServerConnection) -> None:
        for _ in range(3):
            connection.send(wire.encode(wire.Alive()))
            sleep(0.2)
        connection.send(WELCOME)
        for frame in wire.frames(LONG):  # 10 kB in 0.7 s
            connection.send(frame)
            sleep(0.12)
        connection.send(wire.encode(wire.Part(b"abc", True)))
        told.wait(20)

    with scripted(slowly) as address:
        one = Wire(address, HELLO, timeout=0.5)
        assert one.receive(0.5) == LONG
        assert 10_000 < one.received < 12_000
        with pytest.raises(TimeoutError):
            one.receive(0.3)
        told.set()
        one.drop()


NO_WELCOME = "did not answer with a welcome"


@pytest.mark.parametrize(
    ("says", "told"),
    [(b"\xc1", "unknown message"), ("hello", "unknown message"), (wire.encode(LONG), NO_WELCOME)],
)
def test_what_is_no_server_of_ours_is_left_with_a_sentence(says, told):
    ended = threading.Event()

    def script(connection: ServerConnection) -> None:
        connection.send(says)
        for _ in connection:
            pass
        ended.set()

    with scripted(script) as address:
        with pytest.raises(UserError, match=told):
            Remote(address, TARGET, Vanilla())
        assert ended.wait(5), "the connection is not left open"


def test_a_server_that_turns_into_another_ends_the_search_for_it():
    """Else a run would wait for ever for a link that will not come back."""
    said = [WELCOME, b"\xc1"]
    with (
        scripted(lambda one: one.send(said.pop(0))) as address,
        Remote(address, TARGET, Vanilla()) as remote,
    ):
        with pytest.raises(LinkLost):
            remote.verify(DraftTree.only_root(1), 0)
        with pytest.raises(UserError, match="unknown message"):
            while not remote.back(5):
                pass


def test_signs_of_life_come_while_a_drafter_is_loaded_and_while_others_work(monkeypatch):
    monkeypatch.setattr(servers, "BEAT", 0.05)
    loading = threading.Event()

    def slowly(name: str) -> Drafter:
        assert loading.wait(20)
        return useful(name, TARGET)

    with serving(TARGET, slowly) as (one, port):
        address = Address(f"ws://127.0.0.1:{port}")
        other = Caller(port)  # needs no drafter: its welcome need not wait for the worker
        hello = wire.Hello(wire.VERSION, "", "moa-n0", drafter_mark(useful("moa-n0", TARGET)))
        found: list[Wire] = []
        coming = threading.Thread(target=lambda: found.append(Wire(address, hello, timeout=0.5)))
        coming.start()
        other.say(wire.Prefill(1, [1, 2, 3], 20))
        late = Caller(port)
        assert late.welcome.session and not found
        sleep(0.8)
        loading.set()
        coming.join(20)
        assert found and other.hear().number == 1
        found[0].close()
        late.close()
        other.close()
        assert until(lambda: not one.sessions)


def test_a_target_that_does_not_come_is_said_in_a_sentence(tmp_path):
    with (
        scripted(lambda connection: connection.send(WELCOME)) as address,
        pytest.raises(UserError, match="is gone"),
    ):
        client_target(address, 0, tmp_path / "cache")


class Echo:
    """Stands in for a connection to a server that sends everything back."""

    def __init__(self) -> None:
        self.seen: Queue[Any] = Queue()
        self.goodbye = threading.Event()
        self.socket = self

    def send(self, frame: bytes) -> None:
        self.seen.put(frame)

    def recv(self) -> bytes:
        if (frame := self.seen.get()) is None:
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


def test_during_a_cut_nothing_passes_and_afterwards_everything_does():
    made = Link(LinkSettings(rtt=4))
    echo, near = joined(made)
    near.send(b"before")
    made.cut()
    near.send(b"meanwhile")
    echo.seen.put(b"of the server's own")
    with pytest.raises(TimeoutError):
        near.recv(0.1)
    with pytest.raises(TimeoutError):
        made.connect(lambda within: Echo(), 0.05)
    near.close()
    assert not echo.goodbye.wait(0.1)
    threading.Timer(0.1, made.restore).start()
    _, other = joined(made)
    other.send(b"hello")
    assert other.recv(10) == b"hello"
    came = {near.recv(10) for _ in range(3)}
    assert came == {b"before", b"meanwhile", b"of the server's own"} and echo.goodbye.wait(10)
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
