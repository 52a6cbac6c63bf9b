"""Who comes in, and who leaves: strangers are told why, and nothing of anybody stays."""

import logging
import threading
from contextlib import ExitStack, suppress
from functools import partial
from time import sleep
from typing import Any

import pytest

from moa_core.drafters.base import Drafter
from moa_core.link import server
from moa_core.link.server import Hall
from moa_core.link.session import Limits, drafter_mark
from moa_core.link.wire import (
    VERSION,
    Hello,
    Prefill,
    Refused,
    Stream,
    Verify,
    encode,
)
from tests.attackers import (
    FORBIDDEN,
    UPGRADE,
    Attacker,
    fire,
    frame,
    header,
    opened,
    reset,
)
from tests.moa_core.link.server.scene import (
    GREEDY,
    PROMPT,
    TARGET,
    TOKEN,
    Gated,
    Served,
    begun,
    caller,
    check_good_client,
    drafter_for,
)
from tests.serving import Caller, serving, until

# ---- who comes in ----


def test_who_says_no_good_hello_is_told_why(served: Served) -> None:
    def why(**hello: Any) -> str:
        with Caller(served[1], **{"token": TOKEN, **hello}) as one:
            assert isinstance(one.welcome, Refused) and one.ended()
            return one.welcome.reason

    for token in ("", "guess", TOKEN + " ", "é"):
        assert why(token=token) == "The token is wrong."
    assert f"version {VERSION}, the client 99" in why(version=99)
    assert "no drafter '../../x'" in why(drafter="../../x")
    assert r"no drafter '\x1b[31mred\n'" in why(drafter="\x1b[31mred\n")
    assert "other weights" in why(drafter="moa-n1", fingerprint="guess")
    early = fire(served[1], UPGRADE, Attacker(0, TOKEN).early()[0])
    assert b"must be a hello" in early
    assert not served[0].sessions
    check_good_client(served[1])


def test_a_wrong_token_costs_whoever_guesses_time(served: Served, monkeypatch) -> None:
    waits = []
    real = server.asyncio.sleep

    async def sleeping(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    monkeypatch.setattr(server.asyncio, "sleep", sleeping)
    monkeypatch.setattr(server, "WRONG_TOKEN", 123.0)
    assert isinstance(Caller(served[1], "guess").welcome, Refused)
    assert 123.0 in waits


def test_a_first_message_is_a_short_one(served: Served) -> None:
    for size in (5000, 1 << 20, 1 << 40):
        answer = fire(served[1], UPGRADE, header(size) + bytes(100))
        assert b"\x88" in answer and b"\x03\xf1" in answer  # close, 1009: too big
    check_good_client(served[1])


def test_who_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELLO_WITHIN", 0.1)
    with serving(TARGET, drafter_for, TOKEN) as (one, port):
        for begin in (b"", b"GET / HT", UPGRADE, UPGRADE + b"\x82", UPGRADE + header(50)):
            fire(port, begin)  # ends, or this raises
        assert until(lambda: len(one.hall.waiting) == 0)
        check_good_client(port)


def test_many_who_say_nothing_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Hall", partial(Hall, 20))
    with serving(TARGET, drafter_for, TOKEN) as (server_, port), ExitStack() as leave:
        many = [leave.enter_context(opened(port)) for _ in range(60)]
        for place, one in enumerate(many):
            with suppress(ConnectionError):
                one.sendall(UPGRADE if place % 2 else b"GET /")
        assert until(lambda: len(server_.hall.waiting) == 20)
        check_good_client(port)
        assert len(server_.hall.waiting) <= 20
        assert b"101" in many[-1].recv(1000), "the oldest had to go, not this one"
        with suppress(ConnectionError):
            assert many[0].recv(1000) == b""
        leave.close()
        assert until(lambda: len(server_.hall.waiting) == 0)


def test_web_pages_of_others_cannot_come_in(served: Served) -> None:
    page = UPGRADE.replace(b"Host: here", b"Host: here\r\nOrigin: https://elsewhere.example")
    assert fire(served[1], page).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("request_", FORBIDDEN, ids=range(len(FORBIDDEN)))
def test_what_is_no_handshake_is_answered_with_an_error(request_: bytes, served: Served) -> None:
    answer = fire(served[1], request_)
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or not answer
    assert b"root:" not in answer and b"moa_sessions" not in answer
    check_good_client(served[1])


def test_nothing_that_strangers_say_is_written_into_the_log(
    served: Served, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    attacker = Attacker(1, TOKEN)
    for request in FORBIDDEN:
        fire(served[1], request)
    for kind in (attacker.wrong_hello, attacker.early, attacker.protocol, attacker.wrong_token):
        fire(served[1], UPGRADE, b"".join(kind()))
    said = [record for record in caplog.records if "websockets.client" not in record.name]
    assert not said and capfd.readouterr().err == ""


# ---- who leaves ----


def test_who_leaves_before_the_welcome_leaves_nothing(served: Served) -> None:
    attacker = Attacker(2, TOKEN)
    for _ in range(20):  # more than there are places
        with opened(served[1]) as one:
            one.sendall(UPGRADE + attacker.hello())
            reset(one)
    assert until(lambda: not served[0].sessions)
    check_good_client(served[1])


def test_who_leaves_while_a_drafter_is_loaded_leaves_nothing() -> None:
    loading = threading.Event()

    def slowly(name: str) -> Drafter:
        assert loading.wait(20)
        return drafter_for(name)

    with serving(TARGET, slowly, TOKEN, Limits(keep=0.2)) as (one, port):
        with opened(port) as lost:
            mark = drafter_mark(drafter_for("moa-n1"))
            lost.sendall(UPGRADE + Attacker(3, TOKEN).hello(drafter="moa-n1", fingerprint=mark))
            sleep(0.1)
            reset(lost)
        sleep(0.1)
        loading.set()
        check_good_client(port)
        assert until(lambda: not one.sessions)


def leave_while_another_is_served(gated: type[Gated], here: Caller, lost: Caller) -> None:
    """One is being served, until the gate opens, when another asks and vanishes."""
    gated.gate.clear()
    gated.forwards = 0
    here.say(Verify(2, 7, [GREEDY[0]], [-1]))
    assert until(lambda: gated.forwards == 1)
    lost.say(Verify(2, 7, [GREEDY[0]], [-1]))
    sleep(0.1)
    lost.vanish()
    sleep(0.1)


def test_whoever_has_left_is_passed_over(served: Served, gated: type[Gated]) -> None:
    here, lost = begun(served[1]), begun(served[1])
    leave_while_another_is_served(gated, here, lost)
    gated.gate.set()
    assert here.hear().tokens == [GREEDY[1]]
    assert here.ask(Verify(3, 8, [GREEDY[1]], [-1])).tokens == [GREEDY[2]]
    assert gated.forwards == 2, "nothing was done for who has left"
    here.close()
    assert until(lambda: not served[0].sessions)


def test_a_lost_client_s_place_is_free_even_while_its_request_is_in_the_queue(
    gated: type[Gated],
) -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=2)) as (one, port):
        here, lost = begun(port), begun(port)
        leave_while_another_is_served(gated, here, lost)
        late = caller(port)
        gated.gate.set()
        assert late.ask(Prefill(1, PROMPT, 60)).token == GREEDY[0]
        assert here.hear().tokens == [GREEDY[1]] and len(one.sessions) == 2


@pytest.mark.parametrize("request_", [Prefill(2, PROMPT * 20, 200), Stream(2, 7, GREEDY[0], 90)])
def test_who_vanishes_amid_an_answer_leaves_nothing_after_a_while(
    request_: Any, served: Served
) -> None:
    for number in range(6):
        one = begun(served[1])
        assert one.ask(request_)
        one.vanish() if number % 2 else one.close()
    check_good_client(served[1])
    assert until(lambda: not served[0].sessions)


def test_a_goodbye_frees_a_session_at_once_and_a_loss_after_a_while() -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(keep=1000)) as (one, port):
        begun(port).close()
        assert until(lambda: not one.sessions)
        lost = begun(port)
        lost.vanish()
        sleep(0.2)
        assert list(one.sessions) == [lost.welcome.session]
        with caller(port, session=lost.welcome.session) as back:
            assert (back.welcome.known, back.welcome.number) == (7, 1)
            assert back.ask(Verify(2, 7, [GREEDY[0]], [-1])).tokens == [GREEDY[1]]
        assert until(lambda: not one.sessions)


def test_a_goodbye_counts_though_a_request_is_in_the_queue(gated: type[Gated]) -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(keep=1000)) as (one, port):
        here = begun(port)
        gated.gate.clear()
        gated.forwards = 0
        here.say(Verify(2, 7, [GREEDY[0]], [-1]))
        assert until(lambda: gated.forwards == 1)
        with opened(port) as bare:
            bare.sendall(UPGRADE + Attacker(7, TOKEN).hello())
            assert until(lambda: len(one.sessions) == 2)
            bare.sendall(frame(encode(Prefill(1, PROMPT, 60))))
            sleep(0.1)
            bare.sendall(frame(b"\x03\xe8", opcode=8))
            sleep(0.1)
            gated.gate.set()
            assert until(lambda: list(one.sessions) == [here.welcome.session])
        assert here.hear().tokens == [GREEDY[1]] and gated.forwards == 1


def test_who_is_sent_away_leaves_nothing(served: Served) -> None:
    for bad in (b"\xc1", "text", Verify(2, 99, [1], [-1]), Hello(VERSION, TOKEN)):
        one = begun(served[1])
        assert isinstance(one.ask(bad), Refused) and one.ended()
        assert until(lambda: not served[0].sessions, 0.2)
