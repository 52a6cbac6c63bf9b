"""The server over real sockets: whatever a client does, others are served, and nothing stays."""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache
from time import sleep
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed

from moa_core.decode import Settings, decode
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link import parcel, server
from moa_core.link.connection import Address
from moa_core.link.remote import Remote
from moa_core.link.server import Server
from moa_core.link.session import Limits, drafter_mark
from moa_core.link.visitor import WaitingRoom
from moa_core.link.wire import (
    VERSION,
    Answer,
    Fetch,
    First,
    Hello,
    Prefill,
    Pushed,
    Refused,
    Sampled,
    Share,
    Stream,
    Verify,
    encode,
)
from moa_core.offline import Away
from moa_core.target import Target
from moa_core.trace import LinkBack, Trace, Verified
from moa_core.train.fresh import fresh
from moa_core.tree import TreeSettings
from moa_core.verify import Sampling
from tests.attackers import (
    FORBIDDEN,
    UPGRADE,
    Attacker,
    fire,
    frame,
    header,
    opened,
    read_all,
    reset,
)
from tests.models import plain_greedy, tiny_target, useful
from tests.serving import Caller, serving, until

TOKEN = "let me in"
TARGET = tiny_target()
PROMPT = [5, 9, 33, 2, 17, 40, 8]
GREEDY = plain_greedy(TARGET, PROMPT, 30)
METHODS = ("moa-n0", "moa-n1", "moa-n2", "eagle2", "independent", "vanilla", "streamed")
TREE = TreeSettings(3, 3, 8)
Served = tuple[Server, int]


@cache
def drafter_for(method: str) -> Drafter:
    if method in ("vanilla", "streamed"):
        return Vanilla()
    if method not in METHODS:
        raise UserError("it serves others")
    return fresh(method, TARGET, 0) if method == "independent" else useful(method, TARGET)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare sockets answer no goodbye, and tests guess many tokens."""
    monkeypatch.setattr(server, "CLOSE_WITHIN", 0.2)
    monkeypatch.setattr(server, "WRONG_TOKEN", 0.01)


@pytest.fixture
def served() -> Iterator[Served]:
    """One that forgets lost clients soon."""
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=4, keep=0.3)) as both:
        yield both


def caller(port: int, **hello: Any) -> Caller:
    return Caller(port, TOKEN, **hello)


def begun(port: int) -> Caller:
    """One that has had its prompt read."""
    one = caller(port)
    assert isinstance(one.ask(Prefill(1, PROMPT, 100)), First)
    for _ in range(-(-len(PROMPT) // 16)):
        assert isinstance(one.hear(), Share)
    return one


def run(method: str, port: int | None, prompt: list[int], sampling: Sampling) -> list[int]:
    """A text, over a socket or, without a port, beside its target."""
    drafter, trace = drafter_for(method), Trace()
    settings = Settings(24, TREE, sampling, away=Away(patience=20))
    if port is None:
        trace.events = list(decode(TARGET, drafter, prompt, settings))
    else:
        address = Address(f"ws://127.0.0.1:{port}", TOKEN)
        with Remote(address, TARGET, drafter, method == "streamed") as remote:
            trace.events = list(decode(TARGET, drafter, prompt, settings, remote=remote))
    return trace.output_ids


def check_good_client(port: int) -> None:
    """A client that means well gets the right text."""
    assert run("moa-n1", port, PROMPT, Sampling())[:20] == GREEDY[:20]


class Gated(Target):
    """A target whose forwards wait, once it is told so."""

    gate = threading.Event()
    forwards = 0

    def _forward(self, *args: Any) -> Any:
        type(self).forwards += 1
        assert self.gate.wait(20)
        return super()._forward(*args)


@pytest.fixture
def gated() -> Iterator[type[Gated]]:
    TARGET.__class__ = Gated
    Gated.gate.set()
    Gated.forwards = 0
    yield Gated
    Gated.gate.set()
    TARGET.__class__ = Target


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
        assert until(lambda: len(one.waiting) == 0)
        check_good_client(port)


def test_many_who_say_nothing_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WaitingRoom", lambda: WaitingRoom(20))
    with serving(TARGET, drafter_for, TOKEN) as (server_, port), ExitStack() as leave:
        many = [leave.enter_context(opened(port)) for _ in range(60)]
        for place, one in enumerate(many):
            with suppress(ConnectionError):
                one.sendall(UPGRADE if place % 2 else b"GET /")
        assert until(lambda: len(server_.waiting) == 20)
        check_good_client(port)
        assert len(server_.waiting) <= 20
        assert b"101" in many[-1].recv(1000), "the oldest had to go, not this one"
        with suppress(ConnectionError):
            assert many[0].recv(1000) == b""
        leave.close()
        assert until(lambda: len(server_.waiting) == 0)


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


def test_whoever_has_left_is_passed_over(served: Served, gated: type[Gated]) -> None:
    here, lost = begun(served[1]), begun(served[1])
    gated.gate.clear()
    gated.forwards = 0
    here.say(Verify(2, 7, [GREEDY[0]], [-1]))
    assert until(lambda: gated.forwards == 1)
    lost.say(Verify(2, 7, [GREEDY[0]], [-1]))
    sleep(0.1)
    lost.vanish()
    sleep(0.1)
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
        gated.gate.clear()
        gated.forwards = 0
        here.say(Verify(2, 7, [GREEDY[0]], [-1]))
        assert until(lambda: gated.forwards == 1)
        lost.say(Verify(2, 7, [GREEDY[0]], [-1]))
        sleep(0.1)
        lost.vanish()
        sleep(0.1)
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


# ---- who comes back ----


def test_asked_again_while_the_first_is_still_at_work_it_is_done_once(
    served: Served, gated: type[Gated]
) -> None:
    one = begun(served[1])
    gated.gate.clear()
    gated.forwards = 0
    request = Verify(2, 7, [GREEDY[0], 1, GREEDY[1]], [-1, 0, 0])
    one.say(request)
    assert until(lambda: gated.forwards == 1)
    back = caller(served[1], session=one.welcome.session)
    assert back.welcome.session == one.welcome.session and back.welcome.number == 1
    back.say(request)
    sleep(0.1)
    gated.gate.set()
    answer = back.hear()
    assert isinstance(answer, Answer) and answer.tokens[2] == GREEDY[2]
    assert gated.forwards == 1 and one.ended()
    assert back.ask(Verify(3, 9, [GREEDY[2]], [-1])).tokens == [GREEDY[3]]


def test_a_prompt_asked_again_while_it_is_read_is_read_once(
    served: Served, gated: type[Gated]
) -> None:
    one = caller(served[1])
    gated.gate.clear()
    one.say(Prefill(1, PROMPT, 100))
    assert until(lambda: gated.forwards == 1)
    back = caller(served[1], session=one.welcome.session)
    back.say(Prefill(1, PROMPT, 100))
    sleep(0.1)
    gated.gate.set()
    assert back.hear().token == GREEDY[0] and isinstance(back.hear(), Share)
    assert gated.forwards == 1


def test_a_request_is_checked_when_it_is_its_turn(served: Served, gated: type[Gated]) -> None:
    """Else a prompt that came in between would leave gaps in the cache, of others' numbers."""
    one = begun(served[1])
    for number in range(2, 12):
        at = one.ask(Verify(number, 5 + number, [GREEDY[number - 2]], [-1]))
        assert at.tokens == [GREEDY[number - 1]]
    gated.gate.clear()
    before = gated.forwards
    one.say(Prefill(20, [1, 2], 100))
    assert until(lambda: gated.forwards > before)
    back = caller(served[1], session=one.welcome.session)
    back.say(Verify(21, 16, [3], [-1]))  # right, for what was read before
    sleep(0.1)
    gated.gate.set()
    answer = back.hear()
    assert isinstance(answer, Refused) and "not read" in answer.reason and answer.again


def test_one_connection_at_a_time_and_the_last_one_has_it(served: Served) -> None:
    callers = [begun(served[1])]
    name = callers[0].welcome.session
    for _ in range(10):
        callers.append(caller(served[1], session=name))
        assert callers[-1].welcome.session == name
        assert callers[-2].ended()
    assert callers[-1].ask(Verify(2, 7, [GREEDY[0]], [-1])).tokens == [GREEDY[1]]
    assert list(served[0].sessions) == [name]


def test_a_session_is_only_for_who_knows_its_name_and_wants_the_same(served: Served) -> None:
    one = begun(served[1])
    name = one.welcome.session
    assert len(name) >= 24
    for other in (name[:-1], name.swapcase(), "", name + "x"):
        with caller(served[1], session=other) as stranger:
            assert stranger.welcome.session != name and stranger.welcome.known == 0
    with caller(served[1], session=name, kind="int8") as changed:
        assert changed.welcome.session != name
    with Caller(served[1], "guess", session=name) as guessing:
        assert isinstance(guessing.welcome, Refused)
    assert one.ask(Verify(2, 7, [GREEDY[0]], [-1])).tokens == [GREEDY[1]]


# ---- who does not read, or floods ----


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(server, "SEND_WITHIN", 0.4)
    with serving(TARGET, drafter_for, TOKEN, Limits(keep=0.2)) as both:
        yield both


def test_who_does_not_read_holds_up_nobody_and_goes(impatient: Served) -> None:
    one, port = impatient
    with opened(port) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(UPGRADE + Attacker(4, TOKEN).hello())
        assert until(lambda: len(one.sessions) == 1)
        deaf.settimeout(0.2)
        with suppress(TimeoutError):  # answers of 60 MB, and questions until none is taken
            deaf.sendall(frame(encode(Fetch(3))) * 500)
        [stuck] = one._places._here.values()
        assert until(lambda: stuck.transport.get_write_buffer_size() > (1 << 15))
        check_good_client(port)
        assert stuck.transport.get_write_buffer_size() < 3 * parcel.PIECE
        assert until(lambda: not one.sessions)


def test_who_answers_no_pings_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PING", 0.2)
    with serving(TARGET, drafter_for, TOKEN, Limits(keep=0.2)) as (one, port), opened(port) as deaf:
        deaf.sendall(UPGRADE + Attacker(4, TOKEN).hello())
        assert until(lambda: len(one.sessions) == 1)
        assert until(lambda: not one.sessions)
        check_good_client(port)


def test_a_flood_of_pings_ends_where_its_answers_are_not_read(served: Served) -> None:
    with opened(served[1]) as one:
        one.sendall(UPGRADE)
        one.settimeout(5)
        flood = frame(bytes(125), opcode=9) * 1000
        with pytest.raises(ConnectionError):
            for _ in range(2000):  # 260 MB, of which the first few are taken
                one.sendall(flood)
        check_good_client(served[1])


def test_a_message_in_endless_fragments_is_refused(served: Served) -> None:
    hello = Attacker(5, TOKEN).hello()
    endless = frame(b"", first=0) + frame(b"", 0, first=0) * 5000
    assert b"too many fragments" in fire(served[1], UPGRADE, hello, endless)


# ---- limits ----


def test_when_all_places_are_taken_the_next_one_is_told_and_a_lost_one_s_is_reused() -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=16, keep=1000)) as (one, port):
        here = [begun(port) for _ in range(16)]
        for _ in range(3):
            with caller(port) as late:
                assert isinstance(late.welcome, Refused) and late.welcome.again
                assert "All 16 places here are taken" in late.welcome.reason
        with pytest.raises(UserError, match="All 16 places"):
            Remote(Address(f"ws://127.0.0.1:{port}", TOKEN), TARGET, Vanilla())
        here[3].vanish()
        here[5].vanish()
        assert until(lambda: len(one._places._here) == 14)
        first = begun(port)
        assert here[3].welcome.session not in one.sessions, "lost first"
        assert here[5].welcome.session in one.sessions
        assert first.ask(Verify(2, 7, [GREEDY[0]], [-1])).tokens == [GREEDY[1]]
        for other in (*here[:3], here[4], *here[6:]):
            assert other.ask(Verify(2, 7, [GREEDY[0]], [-1])).tokens == [GREEDY[1]]
        with caller(port, session=here[3].welcome.session) as back:
            assert back.welcome.known == 0, "its place was given away: it begins anew"


def test_whoever_comes_back_to_a_full_server_waits_for_a_place() -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=1, keep=1000)) as (one, port):
        trace, drafter = Trace(), drafter_for("moa-n1")
        settings = Settings(24, TREE, away=Away(patience=20))
        address = Address(f"ws://127.0.0.1:{port}", TOKEN)
        other = None
        with Remote(address, TARGET, drafter, silence=0.3) as remote:
            events = decode(TARGET, drafter, PROMPT, settings, remote=remote)
            for event in trace.record(events):
                if isinstance(event, Verified) and event.cycle == 1:
                    remote._wire.drop()
                    assert until(lambda: not one._places._here)
                    other = caller(port)  # takes the only place
                    assert other.ask(Prefill(1, PROMPT, 60)).token == GREEDY[0]
                    threading.Timer(0.5, other.close).start()
        assert trace.output_ids == GREEDY[:24] and trace.of(LinkBack)


def test_who_asks_nothing_for_long_is_sent_away_and_may_come_back() -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(idle=0.2)) as (one, port):
        idle = begun(port)
        refused = idle.hear()
        assert isinstance(refused, Refused) and "for a long time" in refused.reason
        assert idle.ended() and until(lambda: not one.sessions)
        trace, drafter = Trace(), drafter_for("moa-n1")
        settings = Settings(24, TREE, away=Away(patience=20))
        with Remote(Address(f"ws://127.0.0.1:{port}", TOKEN), TARGET, drafter) as remote:
            for event in trace.record(decode(TARGET, drafter, PROMPT, settings, remote=remote)):
                if isinstance(event, Verified) and event.cycle == 2:
                    sleep(0.5)  # somebody reads what is there
        assert trace.output_ids == GREEDY[:24]


def test_the_context_ends_where_it_was_said_to() -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(context=64)) as (_, port):
        with caller(port) as one:
            assert "at most 64 tokens" in one.ask(Prefill(1, [1] * 64, 64)).reason
        with caller(port) as one:
            assert "this server gives 64" in one.ask(Prefill(1, [1] * 20, 65)).reason
        settings = Settings(100, TREE)
        address = Address(f"ws://127.0.0.1:{port}", TOKEN)
        with (
            Remote(address, TARGET, Vanilla()) as remote,
            pytest.raises(UserError, match="this server gives 64 a session"),
        ):
            list(decode(TARGET, Vanilla(), PROMPT, settings, remote=remote))


def test_two_hundred_thousand_tokens_are_too_many(served: Served) -> None:
    with caller(served[1]) as one:
        assert "at most 256" in one.ask(Prefill(1, [1] * 200_000, 2**21)).reason
    one = begun(served[1])
    deep = {"type": "verify", "number": 2, "position": 7, "tokens": [1] * 200_000}
    deep["parents"] = [-1] + [0] * 199_999
    refused = one.ask(msgspec.msgpack.encode(deep))
    assert isinstance(refused, Refused) and "length" in refused.reason


# ---- files ----


def test_files_are_packed_once_for_all_and_go_with_the_server(monkeypatch) -> None:
    written, folders = [], []
    real = parcel.write

    def write(target: Target, last: int, folder: Any) -> None:
        written.append(last)
        folders.append(folder)
        real(target, last, folder)

    monkeypatch.setattr(parcel, "write", write)

    def fetch(last: int) -> int:
        with caller(port) as one:
            one.say(Fetch(last))
            total, got = 0, 0
            while (piece := one.hear()).name:
                total, got = piece.total, got + len(piece.data)
            assert got == total
            return total

    with serving(TARGET, drafter_for, TOKEN) as (_, port), ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(fetch, [1] * 8))
        assert written == [1] and len(set(sizes)) == 1
        assert fetch(1024) == fetch(3) > fetch(0) and written == [1, 3, 0]
        assert fetch(2) and fetch(1) == sizes[0] and written == [1, 3, 0, 2, 1]
        assert sum(folder.exists() for folder in folders) == parcel.Parcels.MOST
    assert not any(folder.exists() for folder in folders)


# ---- health and metrics ----


def plain(port: int, path: str) -> tuple[str, str]:
    """Head and body of what a plain GET gets."""
    answer = fire(port, f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()).decode()
    head, _, body = answer.partition("\r\n\r\n")
    return head, body


def counted(port: int) -> dict[str, float]:
    """Every sample of the metrics, by its name and its labels."""
    head, body = plain(port, "/metrics")
    assert head.startswith("HTTP/1.1 200") and "version=0.0.4" in head
    return {
        sample.name + json.dumps(sample.labels) * bool(sample.labels): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }


def test_health_and_other_places(served: Served) -> None:
    head, body = plain(served[1], "/health")
    assert head.startswith("HTTP/1.1 200 OK") and body == f"ok: {TARGET.name}\n"
    assert "text/plain" in head and "server:" not in head.lower()
    for path in ("/", "/health/", "/metrics?x=1", "/favicon.ico"):
        assert plain(served[1], path)[0].startswith("HTTP/1.1 426")


def test_metrics_count_what_was_sent_asked_and_gained(served: Served) -> None:
    port = served[1]
    assert counted(port)["moa_sessions"] == 0
    one = begun(port)
    one.ask(Verify(2, 7, [GREEDY[0], GREEDY[1], 63 - GREEDY[2]], [-1, 0, 1]))
    one.ask(Verify(2, 7, [GREEDY[0], GREEDY[1], 63 - GREEDY[2]], [-1, 0, 1]))
    one.say(Stream(3, 9, GREEDY[2], 5))
    assert [one.hear().token for _ in range(5)] == GREEDY[3:8]
    one.ask(Verify(4, 14, [GREEDY[7], 1, 2], [-1, 0, 1], keep=True))
    now = counted(port)
    assert now["moa_sessions"] == 1 and now["moa_waiting"] == 1  # who asks for this
    assert now["moa_gained_tokens_total"] == 1 + 2 + 0 + 5 + 1
    assert now["moa_received_bytes_total"] == one.sent
    assert now["moa_sent_bytes_total"] == one.received
    requests = {name: now[f'moa_requests_total{{"kind": "{name}"}}'] for name in (
        "prefill", "verify", "stream",
    )}  # fmt: skip
    assert requests == {"prefill": 1, "verify": 3, "stream": 1}
    assert 0 < now["moa_work_seconds_total"] < 20 and now["moa_refused_total"] == 0
    assert isinstance(one.ask(b"\xc1"), Refused)
    Caller(port, "guess").close()
    later = counted(port)
    assert later["moa_refused_total"] == 2 and later["moa_sessions"] == 0
    assert later["moa_gained_tokens_total"] == 9


def test_two_servers_count_for_themselves(served: Served) -> None:
    with serving(TARGET, drafter_for, TOKEN) as (_, port):
        check_good_client(port)
        assert counted(port)["moa_gained_tokens_total"] >= 24
    assert counted(served[1])["moa_gained_tokens_total"] == 0


# ---- many at once ----


def test_sixteen_clients_at_once_each_get_their_own_text() -> None:
    """Each with a prompt, a method, a sampling and a kind of numbers of its own."""

    def work(number: int) -> tuple[str, Sampling, list[int]]:
        sampling = Sampling(0.8, seed=number) if number % 3 == 2 else Sampling()
        prompt = [(number * 7 + place * 5) % 64 for place in range(3 + 9 * number)]
        return METHODS[number % len(METHODS)], sampling, prompt

    jobs = [work(number) for number in range(16)]
    local = [run(method, None, prompt, sampling) for method, sampling, prompt in jobs]
    with serving(TARGET, drafter_for, TOKEN) as (one, port), ThreadPoolExecutor(16) as pool:
        far = list(pool.map(lambda job: run(job[0], port, job[2], job[1]), jobs))
        assert far == local
        assert until(lambda: not one.sessions)


def test_prompts_of_sixteen_clients_do_not_mix(served: Served) -> None:
    """Turn by turn: what one is told never depends on who asked before."""
    callers = [begun(served[1]) for _ in range(4)]
    for number in range(2, 12):
        for one in callers:
            answer = one.ask(Verify(number, 5 + number, [GREEDY[number - 2]], [-1]))
            assert answer.tokens == [GREEDY[number - 1]]


def test_a_failure_of_the_server_s_own_is_told_logged_and_survived(
    served: Served, monkeypatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = begun(served[1])

    def broken(*_: Any) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Target, "verify", broken)
        refused = one.ask(Verify(2, 7, [1], [-1]))
    assert isinstance(refused, Refused) and "memory" not in refused.reason
    assert "out of memory" in caplog.text and until(lambda: not served[0].sessions)
    check_good_client(served[1])


@pytest.mark.parametrize("seed", range(3))
def test_attackers_do_no_harm(seed: int, served: Served) -> None:
    """A few hundred of them here; thousands, against a process, in test_flood.py."""
    attacker = Attacker(seed, TOKEN, words=64)
    kinds = {attacker.attack(served[1]) for _ in range(100)}
    assert len(kinds) == 10 and attacker.sent >= 80
    check_good_client(served[1])
    assert until(lambda: not served[0].sessions)


def test_sampled_numbers_travel_as_they_are(served: Served) -> None:
    with caller(served[1]) as one, caller(served[1]) as other:
        sampled = Sampled(0.8, 0.9, 20, 7)
        firsts = [each.ask(Prefill(1, PROMPT, 60, sampled)) for each in (one, other)]
        assert firsts[0].token == firsts[1].token
        [each.hear() for each in (one, other)]
        pushed = []
        for each in (one, other):
            each.say(Stream(2, 7, firsts[0].token, 20))
            pushed.append([each.hear().token for _ in range(20)])
        assert pushed[0] == pushed[1] and isinstance(one, Caller)


def test_the_end_does_not_wait_for_who_is_silent_deaf_or_busy(
    monkeypatch: pytest.MonkeyPatch, gated: type[Gated]
) -> None:
    monkeypatch.setattr(server, "HELLO_WITHIN", 1000)
    monkeypatch.setattr(server, "SEND_WITHIN", 1000)
    with ExitStack() as leave:
        with serving(TARGET, drafter_for, TOKEN) as (one, port):
            silent, slow, deaf = (leave.enter_context(opened(port)) for _ in range(3))
            slow.sendall(UPGRADE)
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall(UPGRADE + Attacker(4, TOKEN).hello())
            assert until(lambda: len(one.sessions) == 1)
            deaf.settimeout(0.2)
            with suppress(TimeoutError):
                deaf.sendall(frame(encode(Fetch(3))) * 500)
            busy = [begun(port) for _ in range(3)]
            gated.gate.clear()
            for each in busy:
                each.say(Stream(2, 7, GREEDY[0], 2**20))
            threading.Timer(0.3, gated.gate.set).start()
            assert until(lambda: len(one.waiting) == 2)
        # `serving` joins its thread: that it could is what is tested.
        assert not any(thread.name == "serving" for thread in threading.enumerate())
        assert read_all(silent) == b""
        for each in busy:
            with pytest.raises(ConnectionClosed):
                while True:
                    each.hear()


def test_a_stream_that_nobody_hears_stops(served: Served) -> None:
    one = begun(served[1])
    one.say(Stream(2, 7, GREEDY[0], 2**20))
    assert isinstance(one.hear(), Pushed)
    one.vanish()
    with pytest.raises(ConnectionClosed):
        while True:
            one.hear()
    assert until(lambda: not served[0].sessions)
