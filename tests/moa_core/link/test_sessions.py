"""Sessions: what they read, forget and deny; over a socket, what ends them, and their limits."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import LinkBack, Trace, Verified
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from moa_core.link.remote import Remote
from moa_core.link.session import Limits
from moa_core.link.wire import Prefill, Refused
from tests.attackers import fire
from tests.moa_core.link.scene import (
    GREEDY,
    NEXT,
    PROMPT,
    TARGET,
    TOKEN,
    TREE,
    address,
    begun,
    caller,
    drafter_for,
    run,
)
from tests.serving import Caller, serving, until

SETTINGS = Settings(24, TREE, patience=20)


def test_who_has_lost_a_session_gets_a_new_one_and_the_old_one_ends(served, gated):
    """Whoever knows its name, however often; what was asked in the old one stays undone."""
    callers = [begun(served[1])]
    name = callers[0].welcome.session
    assert len(name) >= 24
    for other in (name[:-1], name.swapcase(), "", name + "x"):
        with caller(served[1], session=other) as stranger:
            assert stranger.welcome.session != name
    with Caller(served[1], "guess", session=name) as guessing:
        assert isinstance(guessing.welcome, Refused)
    gated.gate.clear()
    gated.forwards = 0
    callers[0].say(NEXT)
    assert until(lambda: gated.forwards == 1)
    for _ in range(5):
        callers.append(caller(served[1], session=name))
        assert callers[-1].welcome.session == name and callers[-2].ended()
    gated.gate.set()
    last = callers[-1]
    assert list(served[0].sessions) == [name]
    assert last.ask(Prefill(1, PROMPT, 100)).token == GREEDY[0] and last.hear().count
    assert last.ask(NEXT).tokens == [GREEDY[1]]
    last.vanish()
    assert until(lambda: not served[0].sessions)


def test_when_all_places_are_taken_the_next_one_is_told_until_one_has_left():
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=2)) as (one, port):
        here = [begun(port) for _ in range(2)]
        with caller(port) as late:
            assert isinstance(late.welcome, Refused) and late.welcome.again
        with pytest.raises(UserError, match="All 2 places here are taken"):
            Remote(address(port), TARGET, Vanilla())
        here[1].vanish()
        assert until(lambda: len(one.sessions) == 1)
        for other in (begun(port), here[0]):
            assert other.ask(NEXT).tokens == [GREEDY[1]]


def test_whoever_comes_back_to_a_full_server_waits_for_a_place():
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=1)) as (one, port):
        trace, drafter = Trace(), drafter_for("moa-n1")
        with Remote(address(port), TARGET, drafter, silence=0.3) as remote:
            for event in trace.record(decode(TARGET, drafter, PROMPT, SETTINGS, remote=remote)):
                if isinstance(event, Verified) and event.cycle == 1:
                    remote._wire.drop()
                    assert until(lambda: not one.sessions)
                    other = caller(port)  # takes the only place
                    assert other.ask(Prefill(1, PROMPT, 60)).token == GREEDY[0]
                    threading.Timer(0.5, other.close).start()
        assert trace.output_ids == GREEDY[:24] and trace.of(LinkBack)


def test_who_asks_nothing_for_long_is_sent_away_and_may_come_back():
    with serving(TARGET, drafter_for, TOKEN, Limits(idle=0.2)) as (one, port):
        idle = begun(port)
        refused = idle.hear()
        assert isinstance(refused, Refused) and "for a long time" in refused.reason
        assert idle.ended() and until(lambda: not one.sessions)
        trace, drafter = Trace(), drafter_for("moa-n1")
        with Remote(address(port), TARGET, drafter) as remote:
            for event in trace.record(decode(TARGET, drafter, PROMPT, SETTINGS, remote=remote)):
                if isinstance(event, Verified) and event.cycle == 2:
                    sleep(0.5)  # somebody reads what is there
        assert trace.output_ids == GREEDY[:24]


def test_the_context_ends_where_it_was_said_to():
    with (
        serving(TARGET, drafter_for, TOKEN, Limits(context=64)) as (_, port),
        Remote(address(port), TARGET, Vanilla()) as remote,
        pytest.raises(UserError, match="this server gives 64 per session"),
    ):
        list(decode(TARGET, Vanilla(), PROMPT, Settings(100, TREE), remote=remote))


def test_many_clients_at_once_each_get_their_own_text():
    methods = ("moa-n0", "moa-n1", "moa-n2", "eagle2", "independent", "vanilla", "streamed")

    def work(number: int, port: int | None = None) -> list[int]:
        sampling = Sampling(0.8, seed=number) if number % 3 == 2 else Sampling()
        prompt = [(number * 7 + place * 5) % 64 for place in range(3 + 9 * number)]
        return run(methods[number % 7], port, sampling, 24, prompt=prompt).output_ids

    local = [work(number) for number in range(8)]
    with serving(TARGET, drafter_for, TOKEN) as (one, port), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: work(number, port), range(8))) == local
        assert until(lambda: not one.sessions)


def test_health_and_other_places(served):
    def plain(path: str) -> str:
        return fire(served[1], f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()).decode()

    head, _, body = plain("/health").partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK") and "server:" not in head.lower()
    assert body == f"ok: {TARGET.name}, 0 sessions, 1 waiting\n"
    with caller(served[1]):
        assert ", 1 sessions, 1 waiting" in plain("/health")
    for path in ("/", "/health/", "/metrics"):
        assert plain(path).startswith("HTTP/1.1 426")
