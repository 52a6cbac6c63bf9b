"""Who comes into a server, goes and comes back; who floods it; and that others are served well."""

import logging
import socket
import threading
from contextlib import ExitStack, suppress
from time import monotonic, sleep
from unittest.mock import Mock

import pytest
from websockets.exceptions import ConnectionClosed

from moa_core.link import client_weights, server
from moa_core.link.session import Limits
from moa_core.link.wire import VERSION, Fetch, Hello, Prefill, Refused, Stream, Verify, encode
from moa_core.model.target import Target
from tests.attackers import FORBIDDEN, UPGRADE, fire, frame, header, hello, opened, read_all
from tests.moa_core.link.scene import (
    GREEDY,
    NEXT,
    PROMPT,
    TARGET,
    TOKEN,
    begun,
    caller,
    check_good_client,
    drafter_for,
)
from tests.serving import Caller, serving, until


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare sockets answer no goodbye, and tests guess many tokens."""
    monkeypatch.setattr(server, "CLOSE_WITHIN", 0.2)
    monkeypatch.setattr(server, "WRONG_TOKEN", 0.01)


def arrived(leave: ExitStack, port: int) -> socket.socket:
    one = leave.enter_context(opened(port))
    one.sendall(UPGRADE + hello(TOKEN))
    return one


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"token": TOKEN + " "}, "The token is wrong."),
        ({"token": "é"}, "The token is wrong."),
        ({"version": 99}, f"version {VERSION}, the client 99"),
        ({"drafter": "../../x"}, "no drafter '../../x'"),
        ({"drafter": "\x1b[31mred\n"}, r"no drafter '\x1b[31mred\n'"),
        ({"drafter": "moa-n1", "fingerprint": "guess"}, "other weights"),
    ],
)
def test_who_says_no_good_hello_is_told_why(changes, why, served, monkeypatch):
    monkeypatch.setattr(server, "WRONG_TOKEN", 0.3)  # whoever guesses has to wait
    began = monotonic()
    with Caller(served[1], **{"token": TOKEN, **changes}) as one:
        assert isinstance(one.welcome, Refused) and why in one.welcome.reason and one.ended()
    assert monotonic() - began >= 0.3 or "token" not in why
    assert not served[0].sessions
    check_good_client(served[1])


def test_a_first_message_is_a_short_hello(served):
    assert b"must be a hello" in fire(served[1], UPGRADE, frame(encode(Fetch(0))))
    for size in (5000, 1 << 20, 1 << 40):
        answer = fire(served[1], UPGRADE, header(size) + bytes(100))
        assert b"\x88" in answer and b"\x03\xf1" in answer  # close, 1009: too big
    check_good_client(served[1])


def test_who_says_nothing_is_sent_away_and_keeps_nobody_out(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(server, "HELLO_WITHIN", 0.1)
        with serving(TARGET, drafter_for, TOKEN) as (one, port):
            for begin in (b"", b"GET / HT", UPGRADE, UPGRADE + b"\x82", UPGRADE + header(50)):
                fire(port, begin)  # ends, or this raises
            assert until(lambda: len(one.hall) == 0)
            check_good_client(port)
    monkeypatch.setattr(server, "WAITING", 20)
    with serving(TARGET, drafter_for, TOKEN) as (one, port), ExitStack() as leave:
        many = [leave.enter_context(opened(port)) for _ in range(60)]
        for place, silent in enumerate(many):
            with suppress(ConnectionError):
                silent.sendall(UPGRADE if place % 2 else b"GET /")
        assert until(lambda: len(one.hall) == 20)
        check_good_client(port)
        assert len(one.hall) <= 20
        assert b"101" in many[-1].recv(1000), "the oldest had to go, not this one"
        with suppress(ConnectionError):
            assert many[0].recv(1000) == b""
        leave.close()
        assert until(lambda: len(one.hall) == 0)


def test_what_is_no_handshake_of_ours_gets_an_error_and_no_line_in_the_log(served, caplog, capfd):
    caplog.set_level(logging.INFO)
    page = UPGRADE.replace(b"Host: here", b"Host: here\r\nOrigin: https://elsewhere.example")
    assert fire(served[1], page).startswith(b"HTTP/1.1 403"), "web pages of others"
    for request in FORBIDDEN:
        answer = fire(served[1], request)
        assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or not answer
        assert b"root:" not in answer
    unmasked = frame(b"x", masked=False)
    for bad in (hello("guess"), hello(TOKEN, version=99), frame(encode(NEXT)), unmasked):
        fire(served[1], UPGRADE, bad)
    said = [record for record in caplog.records if "websockets.client" not in record.name]
    assert not said and capfd.readouterr().err == ""
    check_good_client(served[1])


def test_whoever_has_left_is_passed_over_and_the_place_is_free_at_once(gated):
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=2)) as (one, port):
        here, lost = begun(port), begun(port)
        gated.gate.clear()
        gated.forwards = 0
        here.say(NEXT)
        assert until(lambda: gated.forwards == 1)
        lost.say(NEXT)
        sleep(0.1)
        lost.vanish()
        sleep(0.1)
        late = caller(port)
        gated.gate.set()
        assert here.hear().tokens == [GREEDY[1]] and len(one.sessions) == 2
        assert here.ask(Verify(3, 8, [GREEDY[1]], [-1])).tokens == [GREEDY[2]]
        assert gated.forwards == 2, "nothing was done for who has left"
        assert late.ask(Prefill(1, PROMPT, 60)).token == GREEDY[0]


@pytest.mark.parametrize(
    "bad", [b"\xc1", "text", Verify(2, 99, [1], [-1]), Prefill(2, [], 9), Hello(VERSION, TOKEN)]
)
def test_who_is_sent_away_leaves_nothing(bad, served):
    one = begun(served[1])
    assert isinstance(one.ask(bad), Refused) and one.ended()
    assert until(lambda: not served[0].sessions, 0.2)


def test_a_failure_of_the_server_s_own_is_told_logged_and_survived(served, monkeypatch, caplog):
    one = begun(served[1])
    with monkeypatch.context() as patch:
        patch.setattr(Target, "verify", Mock(side_effect=RuntimeError("out of memory")))
        refused = one.ask(Verify(2, 7, [1], [-1]))
    assert isinstance(refused, Refused) and "memory" not in refused.reason
    assert "out of memory" in caplog.text and until(lambda: not served[0].sessions)
    check_good_client(served[1])


def deaf_client(leave: ExitStack, port: int) -> None:
    """It asks for 60 MB of answers, until nothing is taken, and reads none."""
    deaf = arrived(leave, port)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.settimeout(0.2)
    with suppress(TimeoutError):
        deaf.sendall(frame(encode(Fetch(3))) * 500)


def test_who_does_not_read_holds_up_nobody_and_goes(monkeypatch):
    """And so does whoever answers no pings."""
    monkeypatch.setattr(server, "SEND_WITHIN", 0.4)
    with serving(TARGET, drafter_for, TOKEN) as (one, port), ExitStack() as leave:
        deaf_client(leave, port)
        assert until(lambda: len(one.sessions) == 1)
        stuck = next(iter(one.sessions.values()))
        assert until(lambda: stuck.transport.get_write_buffer_size() > (1 << 15))
        check_good_client(port)
        assert stuck.transport.get_write_buffer_size() < 3 * client_weights.PIECE
        assert until(lambda: not one.sessions)
    monkeypatch.setattr(server, "PING", 0.2)
    with serving(TARGET, drafter_for, TOKEN) as (one, port), ExitStack() as leave:
        arrived(leave, port)
        assert until(lambda: len(one.sessions) == 1)
        assert until(lambda: not one.sessions)


def test_floods_of_pings_and_of_fragments_end(served):
    with opened(served[1]) as one:
        one.sendall(UPGRADE)
        one.settimeout(5)
        flood = frame(bytes(125), opcode=9) * 1000
        with pytest.raises(ConnectionError):
            for _ in range(2000):  # 260 MB, of which the first few are taken
                one.sendall(flood)
    endless = frame(b"", first=0) + frame(b"", 0, first=0) * 5000
    assert b"too many fragments" in fire(served[1], UPGRADE, hello(TOKEN), endless)
    check_good_client(served[1])


def test_the_end_does_not_wait_for_who_is_silent_deaf_or_busy(monkeypatch, gated):
    monkeypatch.setattr(server, "HELLO_WITHIN", 1000)
    monkeypatch.setattr(server, "SEND_WITHIN", 1000)
    with ExitStack() as leave:
        with serving(TARGET, drafter_for, TOKEN) as (one, port):
            silent, slow = (leave.enter_context(opened(port)) for _ in range(2))
            slow.sendall(UPGRADE)
            deaf_client(leave, port)
            streaming = [begun(port) for _ in range(3)]
            gated.gate.clear()
            for each in streaming:
                each.say(Stream(2, 7, GREEDY[0], 2**20))
            threading.Timer(0.3, gated.gate.set).start()
            assert until(lambda: len(one.hall) == 2)
        # `serving` joins its thread: that it could is what is tested.
        assert not any(thread.name == "serving" for thread in threading.enumerate())
        assert read_all(silent) == b""
        for each in streaming:
            with pytest.raises(ConnectionClosed):
                while True:
                    each.hear()
