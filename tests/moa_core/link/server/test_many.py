"""Many at once, and those who flood or do not read: others are served meanwhile."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from moa_core.decoding.verify import Sampling
from moa_core.link import client_weights, server
from moa_core.link.session import Limits
from moa_core.link.wire import (
    Fetch,
    Prefill,
    Pushed,
    Refused,
    Sampled,
    Stream,
    Verify,
    encode,
)
from moa_core.model.target import Target
from tests.attackers import (
    UPGRADE,
    Attacker,
    fire,
    frame,
    opened,
    read_all,
)
from tests.moa_core.link.server.scene import (
    GREEDY,
    METHODS,
    PROMPT,
    TARGET,
    TOKEN,
    Gated,
    Served,
    begun,
    caller,
    check_good_client,
    drafter_for,
    run,
)
from tests.serving import Caller, serving, until

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
        stuck = next(iter(one.sessions.values())).visitor
        assert until(lambda: stuck.transport.get_write_buffer_size() > (1 << 15))
        check_good_client(port)
        assert stuck.transport.get_write_buffer_size() < 3 * client_weights.PIECE
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
            assert until(lambda: len(one.hall.waiting) == 2)
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
