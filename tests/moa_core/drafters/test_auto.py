"""Auto N: settles on what is worth most, follows change, and stays lossless and warm."""

import random
from collections import Counter

import pytest
import torch

from moa_core.decoding import trace as trace_module
from moa_core.decoding.policy import BLOCK, Chooser
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.auto import AutoDrafter
from moa_core.drafters.base import Vanilla
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.target import Target
from tests.models import plain_greedy, tiny_target, traced, useful

PROMPT = [5, 9, 33, 7, 21, 40, 11]
GAINS = {0: 4.0, 1: 4.2, 2: 4.4, 3: 4.6}
CHEAP = {0: 0.010, 1: 0.013, 2: 0.016, 3: 0.020}
COSTS = {0: 0.030, 1: 0.002, 2: 0.040}  # of a proposal, in seconds of the made-up clock
OBSERVE, VERIFY = 0.001, 0.010


def choices(
    chooser: Chooser, seconds: dict[int, float], cycles: int, seed: int = 0, spread: float = 1.5
) -> list[int]:
    """What is picked where gains scatter around their means and times do not."""
    rng, found = random.Random(seed), []
    for _ in range(cycles):
        found.append(chooser.pick())
        gained = max(1, round(rng.gauss(GAINS[found[-1]], spread)))
        chooser.learn(gained, seconds[found[-1]])
    return found


@pytest.mark.parametrize("best", list(GAINS))
@pytest.mark.parametrize("seed", range(5))
def test_the_choice_settles_on_what_is_worth_most(best, seed):
    seconds = {tli: 0.010 if tli == best else 0.016 for tli in GAINS}
    found = choices(Chooser(list(GAINS)), seconds, 200, seed)
    assert found[40:].count(best) >= 0.85 * 160


def test_the_choice_leaves_whoever_becomes_slow_and_finds_whoever_becomes_fast():
    chooser = Chooser(list(GAINS))
    assert Counter(choices(chooser, CHEAP, 100)[50:]).most_common(1)[0][0] == 0
    slow = CHEAP | {0: 0.050}
    assert Counter(choices(chooser, slow, 60, 1)[20:]).most_common(1)[0][0] == 1
    fast = slow | {3: 0.004}  # found though nobody drafts with it: it is tried again in time
    assert choices(chooser, fast, 300, 2)[200:].count(3) >= 85


def test_a_long_round_trip_makes_gain_worth_more_than_time():
    near = choices(Chooser([0, 3]), CHEAP, 200, spread=0.3)
    away = {tli: seconds + 0.5 for tli, seconds in CHEAP.items()}
    far = choices(Chooser([0, 3]), away, 200, spread=0.3)
    assert near[50:].count(0) >= 120 and far[50:].count(3) >= 120


class Clock:
    """Stands still but for what is charged to it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The decode loop's clock: proposals cost COSTS, and taking in and verifying what they do."""
    made = Clock()

    def charged(owner: type, name: str, cost) -> None:
        real = getattr(owner, name)

        def call(self, *args):
            made.now += cost(self)
            return real(self, *args)

        monkeypatch.setattr(owner, name, call)

    charged(MoADrafter, "propose", lambda drafter: COSTS[drafter.tli])
    charged(MoADrafter, "observe", lambda drafter: OBSERVE)
    charged(Target, "verify", lambda target: VERIFY)
    monkeypatch.setattr(trace_module, "perf_counter", made)
    return made


def drafters(target: Target, *stops: int, whisper: float = 0.01) -> list[MoADrafter]:
    made = [useful(f"moa-n{tli}", target, whisper) for tli in stops]
    return [one for one in made if isinstance(one, MoADrafter)]


def test_a_cycle_takes_its_way_over_the_network_too():
    target = tiny_target(vocab_size=61)
    auto = AutoDrafter(drafters(target, 0, 1))
    auto.open(target, 8)
    auto.tli = auto.chooser.pick()
    auto.learn(
        Drafted(1, 0, DraftTree.only_root(1), 0.1),
        Verified(1, (), 0, (), (), (), (), 0.2, 0.05, network_seconds=0.4),
    )
    assert list(auto.chooser.known[0].seconds) == [pytest.approx(0.75)]


def test_the_loop_settles_on_the_fastest_by_its_own_clock(clock):
    target = tiny_target(vocab_size=61)
    trace = traced(target, AutoDrafter(drafters(target, 0, 1, 2)), PROMPT, max_new_tokens=200)
    assert len(trace.choices) == len(trace.accepted_lengths) > 40
    assert trace.choices[: 3 * BLOCK] == [0, 0, 1, 1, 2, 2]
    assert trace.choices[20:].count(1) >= 0.8 * len(trace.choices[20:])


def test_only_who_drafts_takes_anything_in_and_that_is_charged_to_the_draft(clock):
    target = tiny_target(vocab_size=61)
    trace = traced(target, AutoDrafter(drafters(target, 0, 1, 2)), PROMPT, max_new_tokens=40)
    assert {event.tli for event in trace.of(Drafted)} == {0, 1, 2}
    for event in trace.of(Drafted)[1:]:  # the first draft follows the prefill's own taking in
        assert event.seconds == pytest.approx(OBSERVE + COSTS[event.tli])
    assert trace.seconds["prefill"] == pytest.approx(OBSERVE)


@pytest.fixture
def in_random_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are picked at random, each for a cycle or several."""
    rng = random.Random(5)

    def pick(self: Chooser) -> int:
        self.now = rng.choice([self.now, *self.known])
        return self.now

    monkeypatch.setattr(Chooser, "pick", pick)


@pytest.mark.parametrize(
    ("tree", "length"),
    [(TreeSettings(), 1), (TreeSettings(4, 1, 4), 40), (TreeSettings(2, 3, 60), 7)],
)
@pytest.mark.usefixtures("in_random_turns")
def test_greedy_text_is_the_targets_own(tree, length):
    target = tiny_target(vocab_size=61)
    prompt = [(i * i + 3) % 60 for i in range(length)]
    auto = AutoDrafter(drafters(target, 0, 1, 3))
    for _ in range(2):  # one drafter serves several runs
        trace = traced(target, auto, prompt, max_new_tokens=60, tree=tree)
        assert trace.output_ids == plain_greedy(target, prompt, 60)
        assert set(trace.choices) == {0, 1, 3}
    drawn = {"max_new_tokens": 60, "sampling": Sampling(1.0, seed=3)}
    text = traced(target, Vanilla(), prompt, **drawn).output_ids
    assert traced(target, auto, prompt, tree=tree, **drawn).output_ids == text


def test_what_was_missed_is_taken_in_as_if_nothing_had_been(monkeypatch):
    """After waiting, a candidate's caches hold what those of one that never waited do."""
    target, opened = tiny_target(layers=4), []
    turns = iter([0, 0, 0, 1, 3, 3, 1, 0] * 20)
    monkeypatch.setattr(Chooser, "pick", lambda self: setattr(self, "now", next(turns)) or self.now)
    monkeypatch.setattr(
        AutoDrafter, "open", lambda self, *rest, real=AutoDrafter.open: opened.append(self)
        or real(self, *rest),
    )  # fmt: skip
    made = drafters(target, 0, 1, 3)
    trace = traced(target, AutoDrafter(made), PROMPT, max_new_tokens=60)
    whole = [*PROMPT, *trace.output_ids]
    twin = target.fork()
    with torch.inference_mode():
        observation = twin.prefill(whole, len(whole))[1]
        for one in made:
            alone, waited = one.fork(), opened[0].candidates[one.tli]
            known = len(waited.ids)
            assert waited.ids == whole[:known] and known > len(PROMPT)
            alone.open(twin, len(whole))
            alone.observe(observation.ids, alone.server_half(observation))
            for cache in ("memory", "tail") if one.tli else ("memory",):
                found, expected = (getattr(each, cache) for each in (waited, alone))
                torch.testing.assert_close(found.read(0, known), expected.read(0, known))


def test_what_cannot_be_chosen_from_is_refused():
    target = tiny_target()
    with pytest.raises(UserError, match="there are none"):
        AutoDrafter([])
    with pytest.raises(UserError, match="two are alike"):
        AutoDrafter(drafters(target, 1, 1))
