"""A drafter and n-gram lookup together: one tree has the drafts of both.

A trained drafter guesses from the target's state, a lookup from what the text repeats. They are
right at different places, and a lookup costs nothing.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Self

from torch import Tensor

from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, Frontier, TreeSettings
from moa_core.drafters.base import OutputShapes, ServerOutputs, Stepwise
from moa_core.drafters.names import LOOKUP
from moa_core.drafters.ngram import NgramDrafter
from moa_core.model.target import Observation, Target


class WithLookup(Stepwise):
    """A drafter whose tree also has the continuations that n-gram lookup finds.

    Both share the tree's budget: lookup takes at most one draft a level, the drafter the rest.
    Trees that size themselves do so by each part's own gains, and by the costs of both.
    """

    def __init__(self, drafter: Stepwise) -> None:
        self.drafter, self.lookup = drafter, NgramDrafter()
        self.name = drafter.name + LOOKUP
        for fact in ("tree", "tli", "net", "precision", "vocabulary"):
            if hasattr(drafter, fact):
                setattr(self, fact, getattr(drafter, fact))

    def fork(self) -> Self:
        twin = super().fork()
        twin.drafter, twin.lookup = self.drafter.fork(), self.lookup.fork()
        return twin

    def open(self, target: Target, capacity: int) -> None:
        self.lookup.open(target, capacity)
        self.drafter.open(target, capacity)
        self.head = self.drafter.head

    def open_server(self, target: Target, capacity: int) -> None:
        self.drafter.open_server(target, capacity)

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        return self.drafter.server_outputs(observation)

    def output_shapes(self, target: Target, count: int) -> OutputShapes:
        return self.drafter.output_shapes(target, count)

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self.lookup.observe(ids, outputs)
        self.drafter.observe(ids, outputs)

    def measure_for(self, *facts: Hashable) -> None:
        self.lookup.measure_for(*facts)
        self.drafter.measure_for(LOOKUP, *facts)  # it drafts less beside a lookup

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        found, most = DraftTree.only_root(token), min(settings.depth, settings.budget - 1)
        if most:
            found = self.lookup.propose(token, replace(settings, breadth=1, budget=most))
        rest = replace(settings, budget=settings.budget + 1 - len(found))
        tree, places = merged(self.drafter.propose(token, rest), found)
        self.lookup.sizer.moved(places)
        return tree

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        self.lookup.learn(drafted, verified)
        self.drafter.learn(drafted, verified)

    def root(self, token: int) -> Tensor:
        return self.drafter.root(token)

    def expand(self, frontier: Frontier) -> Tensor:
        return self.drafter.expand(frontier)

    def forget(self) -> None:
        self.drafter.forget()


def merged(tree: DraftTree, other: DraftTree) -> tuple[DraftTree, list[int]]:
    """Two trees of one root as one, and the place of each node of `other` in it.

    `tree` keeps its nodes' places and probabilities.
    """
    tokens, parents, depths = list(tree.tokens), list(tree.parents), list(tree.depths)
    log_probs, children = list(tree.log_probs), [dict(found) for found in tree.children]
    places = [0]
    for node in range(1, len(other)):
        parent, token = places[other.parents[node]], other.tokens[node]
        if token not in children[parent]:
            children[parent][token] = len(tokens)
            children.append({})
            tokens.append(token)
            parents.append(parent)
            depths.append(depths[parent] + 1)
            gain = other.log_probs[node] - other.log_probs[other.parents[node]]
            log_probs.append(log_probs[parent] + gain)
        places.append(children[parent][token])
    return DraftTree(tuple(tokens), tuple(parents), tuple(depths), tuple(log_probs)), places
