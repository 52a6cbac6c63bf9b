"""The client's end: servers that are slow, busy, or none of ours; and the emulated link."""

import threading
from time import sleep

import pytest
import torch
from websockets.sync.server import ServerConnection

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verifier import LinkLost
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link import server as servers
from moa_core.link import wire
from moa_core.link.client_weights import client_target
from moa_core.link.connection import Address, Wire
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
