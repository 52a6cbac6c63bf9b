"""The client's end against servers that are slow, busy, or none of ours."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import sleep

import pytest
import torch
from websockets.sync.server import ServerConnection, serve

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link import server as servers
from moa_core.link import wire
from moa_core.link.connection import Address, Wire
from moa_core.link.numbers import pack
from moa_core.link.parcel import target_mark
from moa_core.link.remote import Remote
from moa_core.link.session import drafter_mark
from moa_core.link.wire import Alive, Answer, Hello, Part, Prefill, Refused, Welcome, encode, frames
from moa_core.tree import DraftTree
from moa_core.verifier import LinkLost
from tests.models import tiny_target, useful
from tests.serving import Caller, serving, until

TARGET = tiny_target()
HELLO = Hello(wire.VERSION)
LONG = Answer(1, [5], [0.5], [1.0], pack({"x": torch.randn(2500)}, "f32"), 0.1)


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


def welcome(connection: ServerConnection) -> None:
    connection.send(encode(Welcome("name", TARGET.name, target_mark(TARGET))))


@pytest.fixture
def leave() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_long_answer_over_a_slow_link_is_no_silence(
    monkeypatch: pytest.MonkeyPatch, leave: ExitStack
) -> None:
    monkeypatch.setattr(wire, "PART", 1000)

    def slowly(connection: ServerConnection) -> None:
        welcome(connection)
        for frame in frames(LONG):  # 10 kB in 1 s
            connection.send(frame)
            sleep(0.1)

    one = Wire(leave.enter_context(scripted(slowly)), HELLO)
    assert one.receive(0.5) == LONG
    assert 10_000 < one.received < 12_000
    one.close()


def test_silence_amid_a_long_answer_is_silence(leave: ExitStack) -> None:
    def half(connection: ServerConnection) -> None:
        welcome(connection)
        connection.send(encode(Part(b"abc", True)))
        sleep(1)

    one = Wire(leave.enter_context(scripted(half)), HELLO)
    with pytest.raises(TimeoutError):
        one.receive(0.2)
    one.drop()


def test_a_busy_server_s_welcome_is_waited_for(leave: ExitStack) -> None:
    def late(connection: ServerConnection) -> None:
        for _ in range(6):
            connection.send(encode(Alive()))
            sleep(0.1)
        welcome(connection)

    one = Wire(leave.enter_context(scripted(late)), HELLO, timeout=0.4)
    assert one.welcome.session == "name"
    one.close()


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (b"\xc1", "no message of ours"),
        ("hello", "no message of ours"),
        (encode(LONG), "something else than a welcome"),
        (encode(Refused("Go away.")), "The server refused: Go away."),
        (encode(Welcome("name", "other", "another mark")), "other, is another than"),
    ],
)
def test_what_is_no_server_of_ours_is_left_with_a_sentence(
    says: bytes | str, told: str, leave: ExitStack
) -> None:
    ended = threading.Event()

    def script(connection: ServerConnection) -> None:
        connection.send(says)
        for _ in connection:
            pass
        ended.set()

    address = leave.enter_context(scripted(script))
    with pytest.raises(UserError, match=told):
        Remote(address, TARGET, Vanilla())
    assert ended.wait(5), "the connection is not left open"


def test_a_server_that_turns_into_another_ends_the_search_for_it(leave: ExitStack) -> None:
    """Else a run would wait for ever for a link that will not come back."""
    said = [encode(Welcome("name", TARGET.name, target_mark(TARGET))), b"\xc1"]
    address = leave.enter_context(scripted(lambda one: one.send(said.pop(0))))
    remote = Remote(address, TARGET, Vanilla())
    with pytest.raises(LinkLost):
        remote.verify(DraftTree.only_root(1), 0)
    with pytest.raises(UserError, match="no message of ours"):
        while not remote.back(5):
            pass
    remote.close()


def test_signs_of_life_come_while_a_drafter_is_loaded_and_while_others_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(servers, "BEAT", 0.05)
    loading = threading.Event()

    def slowly(name: str) -> Drafter:
        assert loading.wait(20)
        return useful(name, TARGET)

    with serving(TARGET, slowly) as (one, port):
        address = Address(f"ws://127.0.0.1:{port}")
        other = Caller(port)  # needs no drafter: its welcome need not wait for the worker
        hello = Hello(wire.VERSION, "", "moa-n0", drafter_mark(useful("moa-n0", TARGET)))
        found: list[Wire] = []
        coming = threading.Thread(target=lambda: found.append(Wire(address, hello, timeout=0.2)))
        coming.start()
        other.say(Prefill(1, [1, 2, 3], 20))
        late = Caller(port)
        assert late.welcome.number == 0 and not found
        sleep(0.6)
        loading.set()
        coming.join(20)
        assert found and other.hear().number == 1
        found[0].close()
        late.close()
        other.close()
        assert until(lambda: not one.sessions)


def test_a_dropped_connection_leaves_no_thread_behind() -> None:
    with serving(TARGET, lambda name: useful(name, TARGET)) as (_, port):
        before = threading.active_count()
        remotes = [Remote(Address(f"ws://127.0.0.1:{port}"), TARGET, Vanilla()) for _ in range(5)]
        for remote in remotes:
            assert remote._wire is not None
            remote._wire.drop()
        assert until(lambda: threading.active_count() <= before, 5)
        for remote in remotes:
            remote.close()
