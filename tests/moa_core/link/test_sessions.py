"""Sessions over a socket: a client comes back to its own, and has its limits."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import LinkBack, Trace, Verified
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from moa_core.link.remote import Remote
from moa_core.link.session import Limits
from moa_core.link.wire import Answer, Prefill, Refused, Verify
from tests.attackers import fire
from tests.moa_core.link.scene import (
    GREEDY,
    PROMPT,
    TARGET,
    TOKEN,
    TREE,
    Gated,
    Served,
    address,
    begun,
    caller,
    drafter_for,
    run,
)
from tests.serving import Caller, serving, until

NEXT = Verify(2, 7, [GREEDY[0]], [-1])
SETTINGS = Settings(24, TREE, away=Away(patience=20))


def meanwhile(gated: type[Gated], one: Caller, asked: object) -> Caller:
    """Its client comes back while a request of its lost connection is being served."""
    gated.gate.clear()
    gated.forwards = 0
    one.say(asked)
    assert until(lambda: gated.forwards == 1)
    return caller(one.port, session=one.welcome.session)


def answered(gated: type[Gated], back: Caller, asked: object) -> object:
    """What it hears to a request that it makes before the first one is done."""
    back.say(asked)
    sleep(0.1)
    gated.gate.set()
    return back.hear()


def test_asked_again_while_the_first_is_still_at_work_it_is_done_once(
    served: Served, gated: type[Gated]
) -> None:
    one = begun(served[1])
    request = Verify(2, 7, [GREEDY[0], 1, GREEDY[1]], [-1, 0, 0])
    back = meanwhile(gated, one, request)
    assert back.welcome.session == one.welcome.session and back.welcome.number == 1
    answer = answered(gated, back, request)
    assert isinstance(answer, Answer) and answer.tokens[2] == GREEDY[2]
    assert gated.forwards == 1 and one.ended()
    assert back.ask(Verify(3, 9, [GREEDY[2]], [-1])).tokens == [GREEDY[3]]


def test_a_request_is_checked_when_it_is_its_turn(served: Served, gated: type[Gated]) -> None:
    """Else a prompt that came in between would leave gaps in the cache, of others' numbers."""
    one = begun(served[1])
    for number in range(2, 12):
        at = one.ask(Verify(number, 5 + number, [GREEDY[number - 2]], [-1]))
        assert at.tokens == [GREEDY[number - 1]]
    back = meanwhile(gated, one, Prefill(20, [1, 2], 100))
    answer = answered(gated, back, Verify(21, 16, [3], [-1]))  # right, for what was read before
    assert isinstance(answer, Refused) and "not read" in answer.reason and answer.again


def test_one_connection_at_a_time_and_the_last_one_has_it(served: Served) -> None:
    callers = [begun(served[1])]
    name = callers[0].welcome.session
    for _ in range(5):
        callers.append(caller(served[1], session=name))
        assert callers[-1].welcome.session == name and callers[-2].ended()
    assert callers[-1].ask(NEXT).tokens == [GREEDY[1]]
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
    assert one.ask(NEXT).tokens == [GREEDY[1]]


# ---- limits ----


def test_when_all_places_are_taken_the_next_one_is_told_and_a_lost_one_s_is_reused() -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=4, keep=1000)) as (one, port):
        here = [begun(port) for _ in range(4)]
        with caller(port) as late:
            assert isinstance(late.welcome, Refused) and late.welcome.again
        with pytest.raises(UserError, match="All 4 places here are taken"):
            Remote(address(port), TARGET, Vanilla())
        here[1].vanish()
        here[2].vanish()
        assert until(lambda: sum(s.visitor is not None for s in one.sessions.values()) == 2)
        first = begun(port)
        assert here[1].welcome.session not in one.sessions, "lost first"
        assert here[2].welcome.session in one.sessions
        for other in (first, here[0], here[3]):
            assert other.ask(NEXT).tokens == [GREEDY[1]]
        with caller(port, session=here[1].welcome.session) as back:
            assert back.welcome.known == 0, "its place was given away: it begins anew"


def test_whoever_comes_back_to_a_full_server_waits_for_a_place() -> None:
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=1, keep=1000)) as (one, port):
        trace, drafter = Trace(), drafter_for("moa-n1")
        with Remote(address(port), TARGET, drafter, silence=0.3) as remote:
            for event in trace.record(decode(TARGET, drafter, PROMPT, SETTINGS, remote=remote)):
                if isinstance(event, Verified) and event.cycle == 1:
                    remote._wire.drop()
                    assert until(lambda: not any(s.visitor for s in one.sessions.values()))
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
        with Remote(address(port), TARGET, drafter) as remote:
            for event in trace.record(decode(TARGET, drafter, PROMPT, SETTINGS, remote=remote)):
                if isinstance(event, Verified) and event.cycle == 2:
                    sleep(0.5)  # somebody reads what is there
        assert trace.output_ids == GREEDY[:24]


def test_the_context_ends_where_it_was_said_to() -> None:
    with (
        serving(TARGET, drafter_for, TOKEN, Limits(context=64)) as (_, port),
        Remote(address(port), TARGET, Vanilla()) as remote,
        pytest.raises(UserError, match="this server gives 64 a session"),
    ):
        list(decode(TARGET, Vanilla(), PROMPT, Settings(100, TREE), remote=remote))


def test_many_clients_at_once_each_get_their_own_text() -> None:
    """Each with a prompt, a method and a sampling of its own."""
    methods = ("moa-n0", "moa-n1", "moa-n2", "eagle2", "independent", "vanilla", "streamed")

    def work(number: int, port: int | None = None) -> list[int]:
        sampling = Sampling(0.8, seed=number) if number % 3 == 2 else Sampling()
        prompt = [(number * 7 + place * 5) % 64 for place in range(3 + 9 * number)]
        return run(methods[number % 7], port, sampling, 24, prompt=prompt).output_ids

    local = [work(number) for number in range(8)]
    with serving(TARGET, drafter_for, TOKEN) as (one, port), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: work(number, port), range(8))) == local
        assert until(lambda: not one.sessions)


def test_health_and_other_places(served: Served) -> None:
    def plain(path: str) -> str:
        return fire(served[1], f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()).decode()

    head, _, body = plain("/health").partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK") and "server:" not in head.lower()
    assert body == f"ok: {TARGET.name}, 0 sessions, 1 waiting\n"
    with caller(served[1]):
        assert ", 1 sessions, 1 waiting" in plain("/health")
    for path in ("/", "/health/", "/metrics"):
        assert plain(path).startswith("HTTP/1.1 426")
