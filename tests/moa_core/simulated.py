"""A drafter, a target and a clock that are numbers alone: what each tree would gain and cost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from torch import Tensor

from moa_core.decoding.policy import Sizer
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import AUTO, DraftTree, Frontier, TreeSettings, grow

VOCABULARY = 40


@dataclass
class World:
    """A target that draws each token from a row of probabilities, and a drafter that knows them
    up to `temper`; 1: exactly. Rows are sharp or flat, so that some texts are easy.

    level, wider, fixed, verify, node  seconds: a drafted level, each node of it, a cycle, its
                                       verification, each node of that
    noise                              share by which times vary
    """

    seed: int = 0
    level: float = 0.5e-3
    wider: float = 0.02e-3
    fixed: float = 1e-3
    verify: float = 2.5e-3
    node: float = 0.08e-3
    temper: float = 1.0
    noise: float = 0.1
    now: float = 0.0
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        sharp = 1 + 7 * torch.rand(VOCABULARY, 1, generator=generator)
        self.logits = sharp * torch.randn(VOCABULARY, VOCABULARY, generator=generator)
        self.odds = self.logits.double().softmax(-1).tolist()
        self.dice = random.Random(self.seed)

    def clock(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds * (1 + self.noise * self.dice.random())

    def expand(self, frontier: Frontier) -> Tensor:
        self.passes(self.level + self.wider * len(frontier.tokens))
        return self.temper * self.logits[frontier.tokens]

    def draw(self, token: int, position: int) -> int:
        """The target's choice at a position: the same text, whatever is drafted."""
        dice = random.Random(f"{self.seed}/{position}")
        return dice.choices(range(VOCABULARY), self.odds[token])[0]

    def verified(self, tree: DraftTree, position: int) -> Verified:
        """Walk down the tree for as long as the target's choices are in it."""
        start = self.now
        self.passes(self.verify + self.node * len(tree))
        path: list[int] = []
        node, drawn = 0, self.draw(tree.tokens[0], position)
        while (child := tree.children[node].get(drawn)) is not None:
            path.append(child)
            node, drawn = child, self.draw(drawn, position + len(path))
        return Verified(1, tuple(path), drawn, (), (), (), (), self.now - start, 0.0)

    def speed(self, shape: TreeSettings, tokens: int, sizer: Sizer | None = None) -> float:
        """Tokens per second over a text, a first fifth left out."""
        token = place = warm = 0
        began = 0.0
        while place < tokens:
            if place < tokens // 5:
                warm, began = place, self.now
            start = self.now
            self.passes(self.fixed)
            root = self.temper * self.logits[token]
            tree = grow(token, root, self.expand, AUTO if sizer else shape, sizer)
            drafted = Drafted(1, place, tree, self.now - start)
            found = self.verified(tree, place)
            if sizer:
                sizer.learn(drafted, found)
            token, place = found.bonus, place + found.gained
        return (place - warm) / (self.now - began)
