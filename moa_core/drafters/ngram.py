"""Prompt lookup: drafts what followed the last few tokens when they occurred before.

An n-gram drafter has no weights and needs only the target's tokens. It is strong if a text repeats
itself or its prompt, and useless otherwise: a baseline that every other method must beat.
"""

import math
from collections.abc import Sequence
from heapq import heappop, heappush

from moa_core.decoding.tree import DraftTree, Node, Sizing, TreeSettings
from moa_core.drafters.base import Drafter, ServerOutputs
from moa_core.model.target import Target

LONGEST = 4  # tokens of the suffix that is tried first


class NgramDrafter(Drafter):
    """Looks up the longest suffix of the text that occurred before."""

    method = name = "ngram"
    label = "N-gram lookup"
    precision = None

    def open(self, target: Target, capacity: int) -> None:
        self.ids: list[int] = []  # verified tokens

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self.ids.extend(ids)

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        nodes = self._looked_up([*self.ids, token], settings)
        return (self.sizer if settings.auto else Sizing()).keep(token, nodes, settings)

    def _looked_up(self, text: list[int], settings: TreeSettings) -> list[Node]:
        for size in range(min(LONGEST, len(text) - 1), 0, -1):
            suffix = text[-size:]
            ends = [end for end in range(size, len(text)) if text[end - size : end] == suffix]
            if ends:
                return _continuations(text, ends, 1 / size, settings)
        return []


def _continuations(
    text: list[int], ends: list[int], unsure: float, settings: TreeSettings
) -> list[Node]:
    """The most frequent continuations of a suffix, parents before their children.

    A node's probability is its share of the places where its parent occurred.

    ends    positions in the text just after the suffix
    unsure  places to add, where something else follows: a short or rare suffix says little
    """
    nodes: list[Node] = []
    # Most probable first, then the shallower, then the most recent, of which there is one.
    waiting: list[tuple[float, int, int, Node, list[int]]] = []

    def offer(parent: Node | None, places: list[int]) -> None:
        so_far, depth = (parent.log_prob, parent.depth + 1) if parent else (0.0, 1)
        followed: dict[int, list[int]] = {}
        for place in places:
            if place < len(text):
                followed.setdefault(text[place], []).append(place + 1)
        best = sorted(followed.items(), key=lambda item: (-len(item[1]), -item[1][-1]))
        for token, after in best[: settings.breadth]:
            score = so_far + math.log(len(after) / (len(places) + unsure))
            node = Node(token, parent, score, depth)
            heappush(waiting, (-score, depth, -after[-1], node, after))

    offer(None, ends)
    while waiting and len(nodes) < settings.budget:
        *_, node, after = heappop(waiting)
        nodes.append(node)
        if node.depth < settings.depth:
            offer(node, after)
    return nodes
