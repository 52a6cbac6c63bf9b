"""Trees sized as they grow: as fast as the best fixed ones, within limits, learning by place."""

import math
import random
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from moa_core.decoding.decode import Settings, about
from moa_core.decoding.policy import FIXED_CYCLES, GOES_ON, Curve, Line, Sizer
from moa_core.decoding.settings import requested_tree
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import AUTO, Frontier, Node, TreeSettings, grow
from moa_core.decoding.verify import Sampling, walk
from moa_core.drafters.base import Vanilla
from tests.models import tiny_target, traced, useful
from tests.properties import paths

FIXED = [TreeSettings(*shape) for shape in ((2, 2, 4), (4, 3, 10), (5, 4, 12), (8, 4, 20))]
PROMPT = [5, 9, 33, 7, 21, 40, 11]
VOCABULARY = 40


@dataclass
class World:
    """A target that draws each token from a row of probabilities, and a drafter that knows them
    up to `temper`; 1: exactly. Rows are sharp or flat, so that some texts are easy."""

    level: float = 0.5e-3  # seconds: of a drafted level
    wider: float = 0.02e-3  # of each of its nodes
    fixed: float = 1e-3  # of a cycle
    verify: float = 2.5e-3  # of its verification
    node: float = 0.08e-3  # of each node of that
    temper: float = 1.0
    noise: float = 0.1  # share by which times vary
    now: float = 0.0

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        sharp = 1 + 7 * torch.rand(VOCABULARY, 1, generator=generator)
        self.logits = sharp * torch.randn(VOCABULARY, VOCABULARY, generator=generator)
        self.odds = self.logits.double().softmax(-1).tolist()
        self.dice = random.Random(0)
        self.sizer = Sizer(TreeSettings(4, 3, 10), clock=lambda: self.now)

    def passes(self, seconds: float) -> None:
        self.now += seconds * (1 + self.noise * self.dice.random())

    def expand(self, frontier: Frontier) -> Tensor:
        self.passes(self.level + self.wider * len(frontier.tokens))
        return self.temper * self.logits[frontier.tokens]

    def draw(self, token: int, position: int) -> int:
        """The target's choice at a position: the same text, whatever is drafted."""
        dice = random.Random(f"0/{position}")
        return dice.choices(range(VOCABULARY), self.odds[token])[0]

    def speed(self, shape: TreeSettings, tokens: int = 400) -> float:
        """Tokens per second over a text, a first fifth left out."""
        sizer = self.sizer if shape.auto else None
        token = place = warm = 0
        began = 0.0
        while place < tokens:
            if place < tokens // 5:
                warm, began = place, self.now
            start = self.now
            self.passes(self.fixed)
            tree = grow(token, self.temper * self.logits[token], self.expand, shape, sizer)
            drafted, start = Drafted(1, place, tree, self.now - start), self.now
            self.passes(self.verify + self.node * len(tree))
            nodes = zip(tree.tokens, tree.depths, strict=True)
            path, token = walk(tree, [self.draw(one, place + depth) for one, depth in nodes])
            verified = Verified(1, path, token, (), (), (), (), self.now - start, 0.0)
            if sizer:
                sizer.learn(drafted, verified)
            place += verified.gained
        return (place - warm) / (self.now - began)


@pytest.mark.parametrize(
    "costs", [{}, {"temper": 0.6}, {"verify": 0.05}, {"level": 0.0012}, {"node": 0.0004}], ids=str
)
def test_it_is_as_fast_as_the_best_fixed_tree_without_being_told(costs):
    fixed = [World(**costs).speed(shape) for shape in FIXED]
    assert World(**costs).speed(AUTO) > 0.98 * max(fixed)


def test_sure_drafts_go_deep_and_unsure_ones_do_not():
    world = World()
    world.speed(AUTO)
    sharp, flat = torch.full((40, 40), -20.0).fill_diagonal_(20.0), torch.zeros(40, 40)
    deep = grow(3, sharp[3], lambda frontier: sharp[frontier.tokens], AUTO, world.sizer)
    shallow = grow(3, flat[3], lambda frontier: flat[frontier.tokens], AUTO, world.sizer)
    assert max(deep.depths) >= 8 and max(shallow.depths) <= 2


def test_until_anything_is_known_the_tree_is_the_one_asked_for():
    world, shape = World(), TreeSettings(4, 3, 9)
    for token in range(12):
        root = world.logits[token]
        limit = TreeSettings(6, 3, 20, auto=True)
        auto = grow(token, root, world.expand, limit, Sizer(shape))
        fixed = grow(token, root, world.expand, shape)
        assert set(paths(auto)) == set(paths(fixed))
        assert sorted(auto.log_probs) == pytest.approx(sorted(fixed.log_probs), abs=1e-5)


def test_no_tree_is_larger_than_its_limits_and_every_parent_comes_first():
    world, limit = World(verify=1.0), TreeSettings(5, 3, 9, auto=True)
    world.speed(AUTO, 100)
    for token in range(40):
        tree = grow(token, world.logits[token], world.expand, limit, world.sizer)
        assert max(tree.depths) <= 5 and 2 <= len(tree) <= 10
        for node, parent in list(enumerate(tree.parents))[1:]:
            assert parent < node and tree.depths[node] == tree.depths[parent] + 1
            assert tree.log_probs[node] <= tree.log_probs[parent]
    # Logits that are no numbers draft nothing.
    assert grow(1, torch.full((40,), math.nan), world.expand, AUTO, world.sizer).tokens == (1,)


def test_a_first_tree_keeps_to_the_limits_too():
    world, limit = World(), TreeSettings(5, 3, 9, auto=True)
    expand = Mock(side_effect=world.expand)
    tree = grow(1, world.logits[1], expand, limit, Sizer(TreeSettings(9, 8, 99)))
    assert [len(call.args[0].tokens) for call in expand.call_args_list] == [3] * 4
    assert len(tree) == 10  # a cache has slots for no more


def test_runs_of_one_drafter_share_what_they_learn_by_place():
    target = tiny_target(vocab_size=61)
    drafter = useful("moa-n0", target)
    run = partial(traced, target, drafter, PROMPT, max_new_tokens=30)
    run(tree=AUTO)
    memory = drafter.sizer.memory
    (first,) = memory
    cycles = memory[first].cycles
    assert cycles > FIXED_CYCLES
    run(tree=AUTO)
    assert memory[first].cycles > cycles
    run(tree=AUTO, sampling=Sampling(1.0))
    assert len(memory) == 2 and drafter.sizer.known.cycles == 0
    run(tree=TreeSettings())  # fixed trees teach nothing
    assert sum(known.cycles for known in memory.values()) < 4 * cycles


def test_on_a_gpu_the_drafters_own_tree_takes_its_place():
    drafter, target = Vanilla(), tiny_target()
    drafter.tree = TreeSettings(7, 8, 61)
    asked = Settings(tree=AUTO)
    assert requested_tree(asked, target, drafter) == AUTO
    assert about(target, drafter, asked)["settings"]["tree"]["auto"]
    far = SimpleNamespace(device=torch.device("cuda"))
    assert requested_tree(asked, far, drafter) == drafter.tree
    assert requested_tree(Settings(tree=TreeSettings()), far, drafter) == TreeSettings()


def test_a_path_that_ends_at_an_expanded_node_says_that_it_did_not_go_on():
    sizer = Sizer(TreeSettings(3, 1, 3))
    first = Node(5, None, 0.0, 1, expanded=True)
    second = Node(6, first, -0.5, 2, expanded=True)
    for offline in (True, False):  # what was written offline teaches nothing
        tree = sizer.keep(1, [first, second, Node(7, second, -1.0, 3)], AUTO)
        verified = Verified(3, (1, 2), 0, (), (), (), (), 0.1, 0.0)
        sizer.learn(Drafted(3, 0, tree, 0.1, offline=offline), verified)
        assert sizer.known.cycles == (not offline)
    guess = Curve(GOES_ON)
    assert sizer.known.extended(0.0) > guess(0.0)
    assert sizer.known.extended(-0.5) < guess(-0.5)


def test_noise_makes_nothing_free_hiccups_move_little_and_a_slow_first_call_is_forgotten():
    line = Line(0.03)
    for number in range(60):
        line.add(*((20, 0.010) if number % 2 else (1, 0.012)))
    assert line.each > 0 and line(40) > line(20)
    line = Line(0.05)
    line.add(4, 0.5)  # loads and packs
    for number in range(60):
        line.add(4 + number % 3, 0.2 if number % 20 == 10 else 0.002)
    assert 0.002 <= line(5) < 0.0025
