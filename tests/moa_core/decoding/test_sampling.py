"""Sampled text follows the target's own distribution, however it was drafted.

A target of five tokens whose next token depends on the last two makes that checkable: the
probability of every possible text is known, and thousands of texts are drawn in seconds.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import product
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from moa_core.decoding.trace import Trace, Verified
from moa_core.decoding.tree import AUTO, DraftTree, Frontier, TreeSettings, grow
from moa_core.decoding.verify import Sampling, target_probs, uniform, walk
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.model.target import Observation
from tests.models import drafter_of, tiny_target, traced

VOCABULARY = 5
LENGTH = 3
PROMPT = [1, 3]
TEXTS = 1500
METHODS = (
    "vanilla", "moa-n0", "moa-n1", "moa-n3", "moa-n0+ngram", "eagle2",
    "independent", "ngram",
)  # fmt: skip
PLAUSIBLE, IMPOSSIBLE = 1e-3, 1e-9  # p-values

TREES = {
    "none": TreeSettings(),
    "chain": TreeSettings(3, 1, 3),
    "tree": TreeSettings(3, 2, 6),
    "every token": TreeSettings(2, 5, 30),
}
SAMPLINGS = {
    "temperature 1": Sampling(1.0),
    "temperature 0.6": Sampling(0.6),
    "top-k": Sampling(1.3, top_k=3),
    "top-p": Sampling(1.0, top_p=0.75),
    "all three": Sampling(0.8, top_k=4, top_p=0.9),
}


class TableTarget:
    """Stands in for a Target: next-token logits looked up by the last two tokens."""

    context = 1_000
    eos_ids = ()
    device = torch.device("cpu")
    torch_threads = nullcontext

    def __init__(self, table: Tensor) -> None:
        self.table = table  # [V, V, V]
        self.embed = nn.Embedding(VOCABULARY, 1)
        self.ids: list[int] = []

    def fork(self) -> TableTarget:
        return copy.copy(self)

    def prefill(self, ids: Sequence[int], capacity: int) -> tuple[Tensor, Observation]:
        self.ids = list(ids)
        return self.table[ids[-2], ids[-1]], self._learnt(0)

    def verify(self, tree: DraftTree) -> Tensor:
        self.tree = tree
        before = [self.ids[-1], *(tree.tokens[parent] for parent in tree.parents[1:])]
        return self.table[before, list(tree.tokens)]

    def keep(self, path: Sequence[int]) -> Observation:
        start = len(self.ids)
        self.ids += [self.tree.tokens[node] for node in (0, *path)]
        return self._learnt(start)

    def _learnt(self, start: int) -> Observation:
        return Observation(tuple(self.ids[start:]), start, None, None)


class TableDrafter(Vanilla):
    """Drafts from a table of its own, by the last token alone, as any drafter grows its tree."""

    def __init__(self, table: Tensor) -> None:
        self.table = table  # [V, V]

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        def expand(frontier: Frontier) -> Tensor:
            return self.table[frontier.tokens]

        return grow(token, self.table[token], expand, settings)


def models() -> tuple[TableTarget, TableDrafter]:
    generator = torch.Generator().manual_seed(4)
    table = 1.5 * torch.randn(VOCABULARY, VOCABULARY, VOCABULARY, generator=generator)
    noise = 0.5 * torch.randn(VOCABULARY, VOCABULARY, generator=generator)
    return TableTarget(table), TableDrafter(table.mean(0) * 2 + noise)


def exact(logits: Tensor, sampling: Sampling) -> list[float]:
    """The distribution asked for, in plain words: temperature, then top-k, then top-p."""
    probs = (logits.double() / sampling.temperature).softmax(-1).tolist()
    order = sorted(range(len(probs)), key=lambda token: -probs[token])
    kept = order[: sampling.top_k or len(order)]
    whole = sum(probs[token] for token in kept)
    nucleus: list[int] = []
    for token in kept:
        if sum(probs[t] for t in nucleus) >= sampling.top_p * whole:
            break
        nucleus.append(token)
    share = sum(probs[token] for token in nucleus)
    return [probs[t] / share if t in nucleus else 0.0 for t in range(len(probs))]


def p_value(counts: Counter[Any], expected: dict[Any, float]) -> float:
    """Pearson's chi-square test; outcomes expected less than five times are pooled."""
    total = sum(counts.values())
    if any(expected.get(outcome, 0.0) == 0 for outcome in counts):
        return 0.0
    cells, rare = [], [0.0, 0.0]
    for outcome, probability in expected.items():
        cell = [counts[outcome], total * probability]
        if cell[1] >= 5:
            cells.append(cell)
        else:
            rare = [a + b for a, b in zip(rare, cell, strict=True)]
    cells += [rare] if rare[1] else []
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    half = torch.tensor([(len(cells) - 1) / 2, statistic / 2], dtype=torch.float64)
    return torch.special.gammaincc(half[0], half[1]).item()


def draw(
    drafter: Drafter, target: TableTarget, sampling: Sampling, tree: TreeSettings
) -> list[Trace]:
    seeded = (replace(sampling, seed=seed) for seed in range(TEXTS))
    return [
        traced(target, drafter, PROMPT, max_new_tokens=LENGTH, tree=tree, sampling=own)
        for own in seeded
    ]


@cache
def rightly_drawn(tree: str, name: str) -> list[Trace]:
    target, drafter = models()
    return draw(Vanilla() if tree == "none" else drafter, target, SAMPLINGS[name], TREES[tree])


def likely(drawn: list[Trace], target: TableTarget, sampling: Sampling) -> float:
    """How likely these texts are, all possible ones being known."""
    pairs = product(range(VOCABULARY), repeat=2)
    rows = {pair: exact(target.table[pair], sampling) for pair in pairs}
    expected = {}
    for text in product(range(VOCABULARY), repeat=LENGTH):
        ids = [*PROMPT, *text]
        expected[text] = prod(rows[ids[n], ids[n + 1]][ids[n + 2]] for n in range(LENGTH))
    return p_value(Counter(tuple(trace.output_ids) for trace in drawn), expected)


@pytest.mark.parametrize(
    ("tree", "name"),
    [
        ("none", "all three"), ("chain", "temperature 1"), ("chain", "top-p"),
        ("tree", "temperature 0.6"), ("tree", "top-k"), ("tree", "all three"),
        ("every token", "temperature 1"),
    ],
)  # fmt: skip
def test_texts_follow_the_targets_distribution(tree, name):
    (target, _), drafts, drawn = models(), tree != "none", rightly_drawn(tree, name)
    assert likely(drawn, target, SAMPLINGS[name]) > PLAUSIBLE
    paths = [event.path for trace in drawn for event in trace.of(Verified)]
    assert sum(map(len, paths)) > TEXTS // 4 or not drafts
    assert paths.count(()) > TEXTS // 4 or tree == "every token"


def accept_the_first_child(tree: DraftTree, choices: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Take the drafter's word for its best node."""
    path, node = [], 0
    while tree.children[node]:
        node = next(iter(tree.children[node].values()))
        path.append(node)
    return tuple(path), choices[node]


def accept_it_now_and_then(tree: DraftTree, choices: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Take its word once in so many cycles, and follow the rule in all others."""
    hasty = sum(choices) % 4 == 0
    return accept_the_first_child(tree, choices) if hasty else walk(tree, choices)


def answer_for_the_rejected(tree: DraftTree, choices: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """After a rejection, give the target's answer to the rejected draft in place of its own."""
    path, bonus = walk(tree, choices)
    children = tree.children[path[-1] if path else 0]
    return path, choices[next(iter(children.values()))] if children else bonus


def one_draw_for_all_positions(seed: int, position: int) -> float:
    """Every token is distributed rightly then, but they are not independent of each other."""
    return uniform(seed, 0)


@pytest.mark.parametrize(
    ("part", "fault", "tree"),
    [
        ("decode.walk", accept_the_first_child, "chain"),
        ("decode.walk", accept_it_now_and_then, "tree"),
        ("decode.walk", answer_for_the_rejected, "tree"),
        ("verify.uniform", one_draw_for_all_positions, "tree"),
    ],
)
def test_a_broken_rule_does_not_pass(part, fault, tree, monkeypatch):
    module, name = part.split(".")
    monkeypatch.setattr(import_module(f"moa_core.decoding.{module}"), name, fault)
    target, drafter = models()
    drawn = draw(drafter, target, SAMPLINGS["temperature 1"], TREES[tree])
    assert likely(drawn, target, SAMPLINGS["temperature 1"]) < IMPOSSIBLE


def test_forgetting_top_p_does_not_pass():
    drawn = rightly_drawn("chain", "temperature 1")
    assert likely(drawn, models()[0], SAMPLINGS["top-p"]) < IMPOSSIBLE


@pytest.mark.parametrize("name", SAMPLINGS)
def test_the_distribution_is_that_of_temperature_then_top_k_then_top_p(name):
    logits = torch.randn(40, 30, generator=torch.Generator().manual_seed(2)) * 2
    wanted = torch.tensor([exact(row, SAMPLINGS[name]) for row in logits], dtype=torch.float32)
    torch.testing.assert_close(target_probs(logits, SAMPLINGS[name]), wanted)


@pytest.mark.parametrize(
    "sampling", [Sampling(0.8, seed=3), Sampling(1.2, 0.9, 20, 4)], ids=["plain", "top-p, top-k"]
)
def test_a_seed_gives_the_same_text_by_every_method_and_tree(sampling):
    target = tiny_target(vocab_size=61, scale=2.0)
    prompts = ([7], [(i * i + 3) % 60 for i in range(40)])
    shapes = (TreeSettings(4, 1, 4), TreeSettings(3, 8, 40), AUTO)
    accepted = 0
    for prompt in prompts:
        texts = set()
        for drafter, shape in product([drafter_of(name, target) for name in METHODS], shapes):
            trace = traced(
                target, drafter, prompt, max_new_tokens=25, tree=shape, sampling=sampling
            )
            texts.add(tuple(trace.output_ids))
            accepted += sum(trace.accepted_lengths) - len(trace.accepted_lengths)
        assert len(texts) == 1
    assert accepted > 50
