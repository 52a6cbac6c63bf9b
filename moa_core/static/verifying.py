"""Verification in buffers: the target reads the tree, chooses, and what it agrees with is kept."""

from __future__ import annotations

from typing import Any

import torch

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verify import Choices, Sampling, sample, target_probs
from moa_core.model.target import Target
from moa_core.static.growing import Nodes
from moa_core.static.slots import with_drafts
from moa_core.static.state import Text


class Verification:
    """Of trees of one size.

    answer  [7, n] float32, which is exact for whole numbers up to 2**24: tokens, parents, depths
            and log-probabilities of the nodes; after each the target's choice, its probability, and
            that of the node's own token
    """

    def __init__(self, target: Target, text: Text, nodes: Nodes) -> None:
        self.target, self.text, self.nodes = target, text, nodes
        device = text.known.device
        self._hidden = text.hidden.new_zeros(nodes.count, text.hidden.shape[1])
        self._logits = text.hidden.new_zeros(nodes.count, target.head.weight.shape[0])
        self._choices = torch.zeros_like(nodes.tokens)
        self.answer = torch.zeros(7, nodes.count, device=device)
        self._count = torch.arange(nodes.count, device=device)

    def read(self, reach: int, drafted: bool) -> None:
        """One target forward over the tree."""
        text, nodes = self.text, self.nodes
        if not drafted:
            nodes.only_root(text)
        window = text.slots.at(text.known + self._count, reach)
        mask = with_drafts(text.known, nodes.seen, reach)
        embedded = self.target.embed(nodes.tokens[None])
        places = (text.known + nodes.depths)[None]
        cache: Any = window
        hidden = self.target.read_layers(embedded, places, mask, cache)[0]
        self._hidden.copy_(hidden)
        self._logits.copy_(self.target.head(hidden))

    def accept(self) -> None:
        """Keep the longest path that the target agrees with; its next choice is the new root."""
        text, nodes = self.text, self.nodes
        above = nodes.parents.clamp(min=0)
        agreed = self._choices[above] == nodes.tokens
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

    def tell(self) -> tuple[DraftTree, Choices]:
        """The cycle's one copy to the host."""
        tokens, parents, depths, sums, chosen, probs, drafts = self.answer.tolist()
        tree = DraftTree(_whole(tokens), _whole(parents), _whole(depths), tuple(sums))
        return tree, Choices(_whole(chosen), tuple(probs), (1.0, *drafts[1:]))

    def choose(self, sampling: Sampling) -> None:
        """The target's choice after each node, as in `verify.choose`."""
        nodes = self.nodes
        probs = target_probs(self._logits, sampling)
        if sampling.greedy:
            self._choices.copy_(self._logits.argmax(-1))
        else:
            self._choices.copy_(sample(probs, self.text.draws[nodes.depths]))
        of_choice = probs.gather(1, self._choices[:, None])[:, 0]
        of_draft = probs[nodes.parents.clamp(min=0), nodes.tokens]
        ours = (nodes.tokens, nodes.parents, nodes.depths, nodes.sums, self._choices)
        for row, found in enumerate((*ours, of_choice, of_draft)):
            self.answer[row].copy_(found)


def _whole(numbers: list[float]) -> tuple[int, ...]:
    return tuple(map(int, numbers))
