"""Going on alone while the target cannot be reached, and coming back: nothing lost or doubled."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, LinkBack, LinkDown, OfflineToken, Prefilled, Trace
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verifier import LinkLost, NearTarget, Traffic
from moa_core.decoding.verify import Choices, Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.model.target import Target
from tests.models import clocked, drafter_of, having_read, tiny_target, useful
from tests.properties import above

PROMPT = [5, 9, 33, 2]
TARGET = tiny_target()
METHODS = ("moa-n0", "moa-n1", "moa-n3", "eagle2", "independent")
TREE = TreeSettings(3, 3, 8)


class Flaky(NearTarget):
    """The target in this process, behind a link that is lost at given questions.

    losses  by question (0 is the prefill, then what it taught, then each cycle): whether the
            target had read it before the link was lost, and how often one looks until it is back
    """

    def __init__(self, target: Target, drafter: Drafter, losses: dict[int, tuple[bool, int]]):
        super().__init__(target, drafter)
        self.losses = losses
        self.asked = 0
        self._away = 0
        self._open: tuple[Any, ...] | None = None  # the question that was lost
        self._answer: Any = None

    def _ask(self, asked: Callable[..., Any], *given: Any) -> Any:
        if (asked, given) == self._open and self._answer is not None:
            self._open = None
            return self._answer
        done, away = self.losses.pop(self.asked, (False, 0))
        self.asked += 1
        if not away:
            self._open = None
            return asked(*given)
        self._away, self._open = away, (asked, given)
        self._answer = asked(*given) if done else None
        raise LinkLost(1.0)

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        return self._ask(super().prefill, tuple(ids), capacity, sampling)

    def verify(self, tree: DraftTree, position: int) -> Choices:
        return self._ask(super().verify, tree, position)

    def server_outputs(self) -> Any:
        asked = super().server_outputs
        return self._ask(asked) if self.asked == 1 else asked()

    def back(self, seconds: float) -> bool:
        self._away -= 1
        return self._away < 0


def run(
    drafter: Drafter, losses: dict[int, tuple[bool, int]], count: int = 40,
    sampling: Sampling | None = None, patience: float = 9, eos: tuple[int, ...] = (),
    should_stop: Callable[[], bool] = lambda: False, target: Target = TARGET,
) -> Trace:  # fmt: skip
    target, drafter, trace = target.fork(), drafter.fork(), Trace()
    settings = Settings(count, TREE, sampling or Sampling(), eos, patience)
    flaky = Flaky(target, drafter, losses)
    for _ in trace.record(decode(target, drafter, PROMPT, settings, should_stop, flaky)):
        pass
    return Trace.from_json(trace.to_json())


def schedule(seed: int) -> dict[int, tuple[bool, int]]:
    draw = random.Random(seed)
    questions = draw.sample(range(16), draw.randint(1, 5))
    return {question: (draw.random() < 0.5, draw.randint(1, 12)) for question in questions}


@pytest.mark.parametrize("method", METHODS)
def test_wherever_the_link_is_lost_the_text_heals_to_the_target_s_own(method):
    sampling = Sampling(0.8, seed=3) if METHODS.index(method) % 2 else Sampling()
    drafter = drafter_of(method, TARGET)
    local = run(drafter, {}, sampling=sampling)
    lost = wrote = 0
    for seed in range(8):
        trace = run(drafter, schedule(seed), sampling=sampling)
        assert trace.output_ids == local.output_ids == trace.verified_ids
        assert len(trace.of(LinkDown)) == len(trace.of(LinkBack))
        lost += len(trace.of(LinkDown))
        wrote += len(trace.of(OfflineToken))
    assert lost > 8 and wrote > 20


@pytest.mark.parametrize("method", [*METHODS, "eagle3", "tandem"])
@torch.inference_mode()
def test_what_is_written_alone_is_as_probable_as_in_a_tree(method):
    drafter = drafter_of(method, TARGET)
    for weight in drafter.net.parameters():  # so large that every part matters
        if weight.ndim > 1:
            weight.normal_(std=0.12)
    drafter, _ = having_read(drafter, TARGET, PROMPT)
    for shape in (TREE, TreeSettings(6, 1, 6), TREE):  # what was written alone is forgotten
        tree = drafter.propose(7, shape)
        for node in range(len(tree)):
            path, steps = [tree.tokens[one] for one in above(tree, node)], drafter.alone(7)
            said = torch.stack([next(steps), *map(steps.send, path)]).log_softmax(-1)
            steps.close()
            known = sum(float(step[token]) for step, token in zip(said, path, strict=False))
            assert tree.log_probs[node] == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, 0.95, seed=3)])
def test_a_drafter_that_knows_all_writes_the_target_s_own_text_alone(sampling):
    """Its draws are those that the target makes at the same positions."""
    target = tiny_target(scale=2.0)
    drafter = useful("moa-n3", target, whisper=0.0)
    trace = run(drafter, {4: (False, 10)}, sampling=sampling, target=target)
    alone = trace.of(OfflineToken)
    expected = [trace.verified_ids[event.position - len(PROMPT)] for event in alone]
    assert len(alone) == 10 and [event.token for event in alone] == expected


@pytest.mark.parametrize("method", ["moa-n0", "eagle2"])
def test_what_was_written_alone_is_drafted_as_long_as_the_target_agrees(method):
    drafted = discarded = 0
    for seed in range(16):
        trace = run(useful(method, TARGET), schedule(seed))
        text, written = [*PROMPT, *trace.output_ids], dict[int, int]()
        for event in trace.events:
            if isinstance(event, LinkDown):
                written = {}
            elif isinstance(event, OfflineToken):
                written[event.position] = event.token
            elif isinstance(event, Drafted) and written:
                known = [place for place in written if place <= event.position]
                agreed = all(text[place] == written[place] for place in known)
                left = [token for place, token in written.items() if place > event.position]
                assert event.offline == (agreed and bool(left))
                assert not event.offline or list(event.tree.tokens[1:]) == left
                drafted, discarded = drafted + event.offline, discarded + (not agreed)
    assert drafted > 1 and discarded > 1


def test_offline_tokens_stand_where_they_belong_and_end_with_the_text():
    trace = run(useful("moa-n0", TARGET), {4: (False, 10**9)}, patience=0)
    alone = trace.of(OfflineToken)
    assert trace.reason == "offline" and len(trace.output_ids) == 40 and alone
    known = len(PROMPT) + len(trace.verified_ids)
    assert [event.position for event in alone] == list(range(known, known + len(alone)))
    assert trace.offline_ids == [event.token for event in alone]
    assert all(0 < event.prob <= 1 for event in alone)
    looks, drafter = iter([False] * 8), useful("moa-n0", TARGET)
    trace = run(drafter, {3: (False, 10**9)}, should_stop=lambda: next(looks, True))
    assert trace.reason == "stopped" and trace.offline_ids


def test_eos_written_alone_ends_the_writing_but_not_the_waiting():
    drafter = useful("moa-n3", TARGET, whisper=0.0)  # writes what the target would
    local = run(drafter, {})
    eos = local.output_ids[20]
    local = run(drafter, {}, eos=(eos,))
    trace = run(drafter, {2: (False, 60)}, eos=(eos,))
    assert trace.output_ids == local.output_ids and trace.reason == "eos"
    alone = [event.token for event in trace.of(OfflineToken)]
    assert alone[-1] == eos and eos not in alone[:-1] and len(alone) < 60


@pytest.mark.parametrize(
    ("method", "question"), [("moa-n0", 0), ("moa-n0", 1), ("vanilla", 1), ("vanilla", 5)]
)
def test_who_cannot_write_yet_or_at_all_waits(method, question):
    drafter = drafter_of(method, TARGET)
    trace = run(drafter, {question: (question == 5, 4)})
    assert not trace.of(OfflineToken) and len(trace.of(LinkBack)) == 1
    assert trace.output_ids == run(drafter, {}).output_ids
    gone = run(drafter, {question: (False, 10**9)}, patience=0)
    assert gone.reason == "offline" and len(gone.of(Prefilled)) == min(question, 1)


@pytest.mark.parametrize(("patience", "reason"), [(0, "offline"), (9, "stopped")])
def test_a_link_that_is_back_only_to_be_lost_again_can_be_given_up(monkeypatch, patience, reason):
    monkeypatch.setattr(Flaky, "back", lambda *_: True)
    losses, looks = dict.fromkeys(range(2, 500), (False, 1)), iter([False] * 10)
    trace = run(Vanilla(), losses, patience=patience, should_stop=lambda: next(looks, True))
    assert trace.reason == reason and len(trace.of(LinkDown)) == 1


def test_a_link_lost_in_the_prefill_is_part_of_its_time_and_all_traffic_is_told(monkeypatch):
    passed = clocked(monkeypatch, {})
    monkeypatch.setattr(Flaky, "back", lambda *_: passed(1.0) >= 3.0)
    monkeypatch.setattr(Flaky, "traffic", Traffic(0.25, 3, 7))
    trace = run(Vanilla(), {0: (False, 1)}, count=4)
    answers = [*trace.of(Prefilled), *(verified for _, verified in trace.cycles)]
    assert (answers[0].seconds, trace.seconds["network"]) == (3.0, 3.75)
    way = [(one.network_seconds, one.sent, one.received) for one in answers]
    assert way == [(0.25, 3, 7)] * 4
    assert [drafted.received for drafted, _ in trace.cycles] == [7] * 3


def test_a_tree_verified_once_the_link_is_back_has_its_time(monkeypatch):
    clocked(monkeypatch, {(Target, "verify"): 2.0})
    trace = run(Vanilla(), {2: (False, 1)}, count=4)
    assert trace.of(LinkBack) and [one.seconds for _, one in trace.cycles] == [2.0] * 3
    assert (trace.seconds["verify"], trace.seconds["network"]) == (6.0, 0.0)
