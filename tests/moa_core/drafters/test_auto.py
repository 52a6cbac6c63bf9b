"""Auto N: settles on what is worth most, follows change, and stays lossless and warm."""

import random
from collections import Counter
from collections.abc import Callable
from itertools import cycle

import pytest
import torch

from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.auto import BLOCK, AutoDrafter, Chooser
from moa_core.drafters.base import Vanilla
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.target import Target
from tests.models import clocked, plain_greedy, tiny_target, traced, useful

PROMPT = [5, 9, 33, 7, 21, 40, 11]
GAINS = {0: 4.0, 1: 4.2, 2: 4.4, 3: 4.6}
CHEAP = {0: 0.010, 1: 0.013, 2: 0.016, 3: 0.020}
COSTS = {0: 0.030, 1: 0.002, 2: 0.040}  # of a proposal, in seconds of a made-up clock
OBSERVE = 0.001


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


def drafters(target: Target, *stops: int) -> list[MoADrafter]:
    return [useful(f"moa-n{tli}", target) for tli in stops]


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


def test_the_loop_settles_on_the_fastest_and_only_who_drafts_takes_anything_in(monkeypatch):
    costs = {(MoADrafter, "propose"): lambda drafter: COSTS[drafter.tli]}
    costs |= {(MoADrafter, "observe"): OBSERVE, (Target, "verify"): 0.010}
    clocked(monkeypatch, costs)
    target = tiny_target(vocab_size=61)
    trace = traced(target, AutoDrafter(drafters(target, 0, 1, 2)), PROMPT, max_new_tokens=200)
    assert len(trace.choices) == len(trace.accepted_lengths) > 40
    assert trace.choices[: 3 * BLOCK] == [0, 0, 1, 1, 2, 2]
    assert trace.choices[20:].count(1) >= 0.8 * len(trace.choices[20:])
    for event in trace.of(Drafted)[1:]:  # the first draft follows the prefill's own taking in
        assert event.seconds == pytest.approx(OBSERVE + COSTS[event.tli])
    assert trace.seconds["prefill"] == pytest.approx(OBSERVE)


def take_turns(patch: pytest.MonkeyPatch, turn: Callable[[Chooser], int]) -> None:
    def pick(chooser: Chooser) -> int:
        chooser.now = turn(chooser)
        return chooser.now

    patch.setattr(Chooser, "pick", pick)


@pytest.mark.parametrize(
    ("tree", "length"),
    [(TreeSettings(), 1), (TreeSettings(4, 1, 4), 40), (TreeSettings(2, 3, 60), 7)],
)
def test_greedy_text_is_the_targets_own(tree, length, monkeypatch):
    rng, target = random.Random(5), tiny_target(vocab_size=61)
    take_turns(monkeypatch, lambda chooser: rng.choice([chooser.now, *chooser.known]))
    prompt = [(i * i + 3) % 60 for i in range(length)]
    auto, expected = AutoDrafter(drafters(target, 0, 1, 3)), plain_greedy(target, prompt, 60)
    for _ in range(2):  # one drafter serves several runs
        trace = traced(target, auto, prompt, max_new_tokens=60, tree=tree)
        assert trace.output_ids == expected
        assert set(trace.choices) == {0, 1, 3}
    drawn = {"max_new_tokens": 60, "sampling": Sampling(1.0, seed=3)}
    text = traced(target, Vanilla(), prompt, **drawn).output_ids
    assert traced(target, auto, prompt, tree=tree, **drawn).output_ids == text


def test_what_was_missed_is_taken_in_as_if_nothing_had_been(monkeypatch):
    """After waiting, a candidate's caches hold what those of one that never waited do."""
    turns = cycle([0, 0, 0, 1, 3, 3, 1, 0])
    take_turns(monkeypatch, lambda chooser: next(turns))
    target = tiny_target(layers=4)
    auto = AutoDrafter(drafters(target, 0, 1, 3))
    monkeypatch.setattr(auto, "fork", lambda: auto)  # so that its candidates are those that drafted
    trace = traced(target, auto, PROMPT, max_new_tokens=60)
    whole = [*PROMPT, *trace.output_ids]
    twin = target.fork()
    with torch.inference_mode():
        observation = twin.prefill(whole, len(whole))[1]
        for waited in auto.candidates.values():
            alone, known = waited.fork(), len(waited.ids)
            assert waited.ids == whole[:known] and known > len(PROMPT)
            alone.open(twin, len(whole))
            alone.observe(observation.ids, alone.server_outputs(observation))
            for cache in ("memory", "tail") if waited.tli else ("memory",):
                found, expected = (getattr(each, cache) for each in (waited, alone))
                torch.testing.assert_close(found.read(0, known), expected.read(0, known))


def test_one_is_enough_and_what_cannot_be_chosen_from_is_refused():
    target = tiny_target()
    (one,) = drafters(target, 1)
    one.tree = TreeSettings(2, 2, 4)
    auto = AutoDrafter([one])
    assert (list(auto.net), auto.precision, auto.tree) == ([one.net], "float32", one.tree)
    with pytest.raises(UserError, match=r"^Auto N needs MoA .* there are none"):
        AutoDrafter([])
    with pytest.raises(UserError, match=r"^Auto N chooses .* two are alike"):
        AutoDrafter(drafters(target, 1, 1))
