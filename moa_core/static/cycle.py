"""One cycle of a method in buffers: draft, verify, accept, with one copy to the host for each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verify import Choices, Sampling, sample, target_probs, uniform
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target
from moa_core.static.buffers import Growth, Nodes, Slots, Text, bucket, with_drafts
from moa_core.static.levels import METHODS
from moa_core.static.replay import Plain


class Cycle:
    """Buffers and captured pieces of one method, over a target's cache.

    rows  tokens that a cycle verifies at most: levels of the deepest tree, and the root
    """

    def __init__(
        self, target: Target, drafter: Drafter, slots: Slots, rows: int, player: Plain
    ) -> None:
        self.target, self.player, self._drafter = target, player, drafter
        self.text = Text(slots, rows, target.config.hidden_size)
        make = METHODS[type(drafter)]
        self.levels = make and make(drafter, target, self.text, slots.cache.capacity)
        self.net: nn.Module | None = getattr(drafter, "net", None)
        self._growths: dict[int, Growth] = {}
        self._verifications: dict[int, Verification] = {}

    def draft(self, token: int, shape: TreeSettings, known: int) -> DraftTree:
        """A tree below the newest token. known: verified tokens."""
        b = min(shape.breadth, self.target.embed.weight.shape[0])
        count = 1 + min(shape.budget, Growth.tried(b, shape.depth)) if self.levels else 1
        self._reach = reach = bucket(known + 1 + max(count, (shape.depth - 1) * b, self.text.rows))
        if count not in self._verifications:
            nodes = Nodes(count, self.text.known.device)
            self._verifications[count] = Verification(self.target, self.text, nodes)
        self._verification = self._verifications[count]
        if self.levels is None:
            self.player.play("root", self._only_root)
            return DraftTree.only_root(token)
        self._grow(b, shape.depth, reach)
        return self._verification.nodes.tell()

    def _only_root(self) -> None:
        self._verification.nodes.tokens.copy_(self.text.root)

    def _grow(self, b: int, depth: int, reach: int) -> None:
        levels, play, nodes = self.levels, self.player.play, self._verification.nodes
        assert levels is not None
        if b not in self._growths:
            static, device = self._drafter.static, self.text.known.device
            self._growths[b] = Growth(b, self.text.rows - 1, static, device)
        growth = self._growths[b]

        def step(level: int) -> None:
            growth.step(level, levels.expand(growth, level, reach))

        play(("root", reach, b), lambda: growth.begin(levels.root(reach)))
        for level in range(1, depth):
            play(("level", level, reach, b), partial(step, level))
        play(("tree", depth, b, nodes.count), partial(nodes.choose, self.text, growth, depth))

    def verify(self, sampling: Sampling, known: int) -> Choices:
        """The target's choices for the tree just drafted; what it agrees with is kept."""
        text, verification, reach = self.text, self._verification, self._reach
        if not sampling.greedy:
            draws = [uniform(sampling.seed, known + 1 + row) for row in range(text.rows)]
            text.draws.copy_(torch.tensor(draws), non_blocking=True)
        form = Sampling() if sampling.greedy else replace(sampling, seed=0)  # draws: a buffer
        count, play = verification.nodes.count, self.player.play
        play(("verify", reach, count), partial(verification.read, reach))
        play(("choose", count, form), partial(verification.choose, form))
        play(("accept", count), verification.accept)
        return verification.tell()


class Verification:
    """The target reads trees of one size, chooses, and what it agrees with is kept.

    answer  [3, n] float32, exact for whole numbers up to 2**24: after each node the target's
            choice, its probability, and that of the node's own token
    """

    def __init__(self, target: Target, text: Text, nodes: Nodes) -> None:
        self.target, self.text, self.nodes = target, text, nodes
        self._hidden = text.hidden.new_zeros(nodes.count, text.hidden.shape[1])
        self._logits = text.hidden.new_zeros(nodes.count, target.head.weight.shape[0])
        self._choices = torch.zeros_like(nodes.tokens)
        self._answer = torch.zeros(3, nodes.count, device=nodes.sums.device)
        self._count = torch.arange(nodes.count, device=nodes.sums.device)

    def read(self, reach: int) -> None:
        """One target forward over the tree."""
        text, nodes = self.text, self.nodes
        window = text.slots.at(text.known + self._count, reach)
        mask = with_drafts(text.known, nodes.seen, reach)
        embedded, places = self.target.embed(nodes.tokens[None]), (text.known + nodes.depths)[None]
        hidden = self.target.read_layers(embedded, places, mask, window)[0]
        self._hidden.copy_(hidden)
        self._logits.copy_(self.target.head(hidden))

    def choose(self, sampling: Sampling) -> None:
        """The target's choice after each node, as in `verify.choose`."""
        nodes, probs = self.nodes, target_probs(self._logits, sampling)
        if sampling.greedy:
            self._choices.copy_(self._logits.argmax(-1))
        else:
            self._choices.copy_(sample(probs, self.text.draws[nodes.depths]))
        of_choice = probs.gather(1, self._choices[:, None])[:, 0]
        of_draft = probs[nodes.parents.clamp(min=0), nodes.tokens]
        self._answer.copy_(torch.stack([self._choices.float(), of_choice, of_draft]))

    def accept(self) -> None:
        """Keep the longest path that the target agrees with; its next choice is the new root."""
        text, nodes = self.text, self.nodes
        agreed = self._choices[nodes.parents.clamp(min=0)] == nodes.tokens
        agreed[:1].fill_(True)
        # A node stays if it and all above it are what the target chose: one path, since children
        # of a node differ. Their numbers ascend along it.
        stays = (agreed | ~nodes.seen).all(1)
        last = nodes.count - 1
        path = torch.where(stays, self._count, last).sort().values
        path = torch.cat([path, path.new_full((text.rows,), last)])[: text.rows]
        text.gained.copy_(stays.sum())
        text.slots.move(text.known + path, text.known + text.count)
        text.hidden.copy_(self._hidden[path])
        text.newest.copy_(self._choices[path])  # what the target chose: the next node, or the bonus
        text.known.add_(text.gained)

    def tell(self) -> Choices:
        """The copy to the host."""
        chosen, probs, drafts = self._answer.tolist()
        return Choices(tuple(map(int, chosen)), tuple(probs), (1.0, *drafts[1:]))


def weights_of(module: nn.Module | None) -> list[tuple[int, int]]:
    """Where a module's weights lie, and how often they were written: graphs read them there."""
    found: list[Tensor] = [] if module is None else list(module.parameters())
    return [(one.data_ptr(), 0 if one.is_inference() else one._version) for one in found]
