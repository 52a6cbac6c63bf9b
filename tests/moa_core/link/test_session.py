"""Sessions: what they read, forget and deny; over a socket, what ends them, and their limits."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest
import torch

from moa_core.decoding.trace import LinkBack
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link import session as sessions
from moa_core.link.remote import Remote
from moa_core.link.session import Denied, Limits, Session
from moa_core.link.wire import First, Prefill, Refused, Share, Stream, Verify, unpack
from tests.attackers import fire
from tests.moa_core.link.scene import (
    GREEDY,
    NEXT,
    PROMPT,
    TARGET,
    TOKEN,
    address,
    answers,
    begun,
    caller,
    drafter_for,
    run,
)
from tests.models import plain_greedy, useful
from tests.serving import Caller, serving, until

LONG = [(7 * place) % 64 for place in range(40)]


def made(drafter: Drafter | None = None, **limits: int) -> Session:
    return Session(TARGET, drafter or Vanilla(), "f32", Limits(**limits))


def having_read(**limits: int) -> Session:
    session = made(**limits)
    [*_] = session.prefill(Prefill(1, PROMPT, 100))
    return session


def branched(number: int, position: int, root: int) -> Verify:
    """The true next tokens, with wrong ones beside them."""
    at = position - len(PROMPT)
    a, b = GREEDY[at + 1 : at + 3]
    return Verify(number, position, [root, 63 - a, a, 63 - b, b], [-1, 0, 0, 2, 2])


def joined(messages: list[Share], name: str) -> torch.Tensor:
    halves = [unpack(message.half, torch.float32, torch.device("cpu")) for message in messages]
    return torch.cat([half[name] for half in halves], -2)


def test_what_comes_after_a_position_is_forgotten():
    session = having_read()
    for number in (2, 3, 4):
        answer = session.verify(branched(number, 7, GREEDY[0]))
        assert [answer.tokens[node] for node in (0, 2, 4)] == GREEDY[1:4]
    wrong = session.verify(Verify(5, 7, [63 - GREEDY[0]], [-1]))
    assert session.known == 8
    again = session.verify(branched(6, 7, GREEDY[0]))
    assert again.tokens[4] == GREEDY[3] and session.known == 10
    text = [*PROMPT, 63 - GREEDY[0]]
    assert wrong.tokens == plain_greedy(TARGET, text, 1)
    first, _ = session.prefill(Prefill(7, [1, 2, 3], 50))  # another prompt: all is forgotten
    assert session.known == 3 and first.token == plain_greedy(TARGET, [1, 2, 3], 1)[0]
    assert "not read" in deny(session, branched(8, 7, GREEDY[0]))


def test_shares_go_on_where_the_client_has_them():
    session = made(useful("moa-n1", TARGET))
    whole = [one for one in session.prefill(Prefill(1, LONG, 100)) if isinstance(one, Share)]
    assert sum(share.count for share in whole) == 40
    for have in (0, 1, 16, 23, 39):
        first, *rest = session.prefill(Prefill(1, LONG, 100, have=have))
        assert isinstance(first, First) and rest[0].start == have
        for name in ("memory", "tail"):
            found, known = joined(rest, name), joined(whole, name)[..., have:, :]
            assert torch.allclose(found, known, atol=1e-5)
    for have in (40, 41, 2**53):  # who has all gets none
        assert len(list(session.prefill(Prefill(1, LONG, 100, have=have)))) == 1


def deny(session: Session, request: Prefill | Verify | Stream) -> str:
    before = session.known
    with pytest.raises(Denied) as caught:
        list(answers(session, request))
    assert session.known == before
    return str(caught.value)


STAR = [-1] + [0] * 93
UNFIT = [
    (Prefill(2, [1] * 100, 100), "at most 100 tokens"),
    (Prefill(2, [1] * 200_000, 2**21), "at most 100 tokens"),
    (Prefill(2, [1] * 10, 101), "this server gives 100 per session. Ask for fewer"),
    (Prefill(2, [1] * 10, 10), "no room"),
    (Prefill(2, [1, 64], 20), "from 0 to 63"),
    (Prefill(2, [], 20), "there must be some"),
    (Verify(2, 7, [1] * 94, STAR), "no room"),
    (Verify(2, 7, [1, 64], [-1, 0]), "from 0 to 63"),
    (Verify(2, 8, [1], [-1]), "not read"),
    (Verify(2, 2**53, [1], [-1]), "not read"),
    (Stream(2, 7, 2**31 - 1, 5), "from 0 to 63"),
    (Stream(2, 8, 1, 5), "not read"),
]


@pytest.mark.parametrize(("request_", "why"), UNFIT)
def test_what_does_not_fit_is_denied_and_the_session_goes_on(request_, why):
    session = having_read(context=100)
    assert why in deny(session, request_)
    assert session.verify(Verify(2, 7, [1] * 93, STAR[:93])).number == 2
    assert next(session.prefill(Prefill(3, [1] * 99, 100))).number == 3


def test_a_stream_ends_with_its_room_and_a_wide_tree_is_denied(monkeypatch):
    session = made()
    [*_] = session.prefill(Prefill(1, PROMPT, 20))
    assert len(list(session.push(Stream(2, 7, GREEDY[0], 2**20)))) == 12
    assert session.known == 19
    monkeypatch.setattr(sessions, "TREE", 20)
    session = having_read()
    assert "at most 20 nodes" in deny(session, Verify(2, 7, [1] * 21, [-1] + [0] * 20))
    assert session.verify(Verify(2, 7, [1] * 21, list(range(-1, 20)))).number == 2


def test_no_token_has_a_position_beyond_the_target_s_last():
    session = made(context=10_000)
    assert "no room" in deny(session, Verify(1, 0, [1], [-1])), "before any prompt"
    assert "at most 256 tokens" in deny(session, Prefill(1, [1] * 256, 300))
    [*_] = session.prefill(Prefill(1, [1] * 250, 600))
    assert "256 positions" in deny(session, Verify(2, 250, [1] * 7, list(range(-1, 6))))
    assert session.verify(Verify(2, 250, [1] * 7, [-1] + [0] * 6)).number == 2
    pushed = list(session.push(Stream(3, 250, 1, 1000)))
    assert [one.position for one in pushed] == [251, 252, 253, 254, 255]


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


def test_where_all_places_are_taken_others_are_told_and_whoever_comes_back_waits():
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=1)) as (one, port):

        def replaced(remote: Remote) -> None:
            remote._wire.drop()
            assert until(lambda: not one.sessions)
            other = begun(port)  # takes the only place
            with caller(port) as late:
                assert isinstance(late.welcome, Refused) and late.welcome.again
            with pytest.raises(UserError, match="All 1 places here are taken"):
                Remote(address(port), TARGET, Vanilla())
            assert other.ask(NEXT).tokens == [GREEDY[1]]
            threading.Timer(0.5, other.close).start()

        trace = run("moa-n1", port, count=24, meanwhile=replaced)
        assert trace.output_ids == GREEDY[:24] and trace.of(LinkBack)


def test_who_asks_nothing_for_long_is_sent_away_and_may_come_back():
    with serving(TARGET, drafter_for, TOKEN, Limits(idle=0.2)) as (one, port):
        idle = begun(port)
        refused = idle.hear()
        assert isinstance(refused, Refused) and "for a long time" in refused.reason
        assert idle.ended() and until(lambda: not one.sessions)
        trace = run("moa-n1", port, count=24, meanwhile=lambda remote: sleep(0.5))
        assert trace.output_ids == GREEDY[:24]


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
