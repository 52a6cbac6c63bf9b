"""A session without sockets: what it reads and forgets, and what does not fit is denied."""

import pytest
import torch

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.link import session as sessions
from moa_core.link.session import Denied, Limits, Session
from moa_core.link.wire import First, Prefill, Sampled, Share, Stream, Verify, unpack
from tests.moa_core.link.scene import GREEDY, PROMPT, TARGET, answers
from tests.models import plain_greedy, useful

LONG = [(7 * place) % 64 for place in range(40)]
CPU = torch.device("cpu")


def made(drafter: Drafter | None = None, kind: str = "f32", **limits: int) -> Session:
    return Session(TARGET, drafter or Vanilla(), kind, Limits(**limits))


def having_read(drafter: Drafter | None = None, **limits: int) -> Session:
    session = made(drafter, **limits)
    [*_] = session.prefill(Prefill(1, PROMPT, 100))
    return session


def branched(number: int, position: int, root: int) -> Verify:
    """The true next tokens, with wrong ones beside them."""
    at = position - len(PROMPT)
    a, b = GREEDY[at + 1 : at + 3]
    return Verify(number, position, [root, 63 - a, a, 63 - b, b], [-1, 0, 0, 2, 2])


def joined(messages: list[Share]) -> dict[str, torch.Tensor]:
    halves = [unpack(message.half, torch.float32, CPU) for message in messages]
    return {name: torch.cat([half[name] for half in halves], -2) for name in halves[0]}


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
        for name, tensor in joined(rest).items():
            assert torch.allclose(tensor, joined(whole)[name][..., have:, :], atol=1e-5)
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
    (Prefill(2, [1] * 10, 101), "Ask for fewer"),
    (Prefill(2, [1] * 10, 10), "no room"),
    (Prefill(2, [1, 64], 20), "from 0 to 63"),
    (Prefill(2, [], 20), "there must be some"),
    (Prefill(2, PROMPT, 20, Sampled(float("nan"), 0.9)), "Temperature"),
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
