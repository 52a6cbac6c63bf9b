"""Prompt lookup: drafts what followed the last few tokens when they occurred before.

An n-gram drafter has no weights and needs only the target's tokens. It is strong if a text repeats
itself or its prompt, and useless otherwise: a baseline that every other method must beat.
"""

import math
from collections.abc import Sequence
from heapq import heappop, heappush

from moa_core.decoding.tree import DraftTree, TreeSettings
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
        tree = self._looked_up([*self.ids, token], settings)
        return self.sizer.trim(tree, settings) if settings.auto else tree

    def _looked_up(self, text: list[int], settings: TreeSettings) -> DraftTree:
        for size in range(min(LONGEST, len(text) - 1), 0, -1):
            suffix = text[-size:]
            ends = [end for end in range(size, len(text)) if text[end - size : end] == suffix]
            if ends:
                return _continuations(text, ends, 1 / size, settings)
        return DraftTree.only_root(text[-1])


def _continuations(
    text: list[int], ends: list[int], unsure: float, settings: TreeSettings
) -> DraftTree:
    """The most frequent continuations of a suffix as a tree.

    A node's probability is its share of the places where its parent occurred, and of `unsure`
    more, where something else follows: a suffix seen once, or a short one, says little.

    ends  positions in the text just after the suffix
    """
    tokens, parents, depths, log_probs = [text[-1]], [-1], [0], [0.0]
    # Most probable first, then the shallower, then the most recent.
    waiting: list[tuple[float, int, int, int, int, list[int]]] = []

    def offer(parent: int, places: list[int]) -> None:
        followed: dict[int, list[int]] = {}
        for place in places:
            if place < len(text):
                followed.setdefault(text[place], []).append(place + 1)
        best = sorted(followed.items(), key=lambda item: (-len(item[1]), -item[1][-1]))
        for token, after in best[: settings.breadth]:
            score = log_probs[parent] + math.log(len(after) / (len(places) + unsure))
            entry = (-score, depths[parent] + 1, -after[-1], parent, token, after)
            heappush(waiting, entry)

    offer(0, ends)
    while waiting and len(tokens) <= settings.budget:
        score, depth, _, parent, token, after = heappop(waiting)
        tokens.append(token)
        parents.append(parent)
        depths.append(depth)
        log_probs.append(-score)
        if depth < settings.depth:
            offer(len(tokens) - 1, after)
    return DraftTree(tuple(tokens), tuple(parents), tuple(depths), tuple(log_probs))
