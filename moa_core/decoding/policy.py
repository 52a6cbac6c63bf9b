"""What one more level or node costs and gains, measured during decoding.

Dinkelbach's rule for ratios maximises tokens per second: with R tokens per second so far, a step
that takes t seconds pays if it should gain more than R * t tokens. `Experience` sizes trees by this
rule. The text does not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, Node, Sizing, TreeSettings, best_nodes, build_tree

FIXED_CYCLES = 3  # cycles with the tree that was asked for, before anything is known
FADING = 0.98  # decay of times and rates per cycle: about 50 cycles are remembered
FORGETTING = 0.995  # decay of node outcomes per cycle: about 200 cycles are remembered
SURPRISE = 2.0  # longest time that counts, as a multiple of the expected time
BINS, PER_NAT = 18, 3.0  # scores from 0 down to -5.67, three bins for each factor e
LAST = BINS - 1.001  # the last place, counted in bins, that has a bin behind it
PRIOR_NODES = 3.0  # weight of a bin's first guess, in nodes
GOES_ON = 0.7  # first guess: how often an accepted node has an accepted child
AHEAD = 1.25  # factor on a level's gain: a good level also makes the levels below it pay


class Line:
    """Seconds by size: fixed + each * size, fitted to decayed times.

    share  first guess of `each` as a share of the fixed part, used until sizes differ
    """

    def __init__(self, share: float) -> None:
        self.fixed = self.each = 0.0
        self._share = share
        self._sums = [0.0] * 5  # of 1, x, y, x * x, x * y

    def add(self, size: float, seconds: float) -> None:
        """Add one time. The first calls may be slow: a much faster one then replaces them."""
        count, expected = self._sums[0], self(size)
        if count and count < 4 and seconds * SURPRISE < expected:
            self._sums = [0.0] * 5
        elif count:
            seconds = min(seconds, SURPRISE * expected)
        new = (1.0, size, seconds, size * size, size * seconds)
        self._sums = [FADING * old + one for old, one in zip(self._sums, new, strict=True)]
        count, x, y, xx, xy = self._sums
        x, y = x / count, y / count
        guess = y * self._share / (1 + self._share * x)  # each = share * fixed, through the mean
        trust = 2 * (1 + x)  # the guess's weight; a size weighs its squared distance from the mean
        slope = (xy - count * x * y + trust * guess) / (xx - count * x * x + trust)
        # If the times are only noise, a slope of zero would make trees as large as possible.
        self.each = max(slope, guess / 4)
        self.fixed = max(y - self.each * x, 0.0)

    def __call__(self, size: float) -> float:
        return self.fixed + self.each * size


class Curve:
    """How often nodes succeed, in decayed counts, by score: the drafter's log-probability from the
    root, in bins.

    certain  first guess for a score of 0; for a score s, the guess is certain * exp(s)
    """

    def __init__(self, certain: float) -> None:
        self._guess = [PRIOR_NODES * certain * math.e ** (-bin / PER_NAT) for bin in range(BINS)]
        self._hits, self._tries = [0.0] * BINS, [0.0] * BINS
        self._table: list[float] = [guess / PRIOR_NODES for guess in self._guess]

    def add(self, score: float, hit: bool) -> None:
        """Add the outcome of a node with this score. It counts after the next `renew`."""
        place = min(-score * PER_NAT, LAST)
        low = int(place)
        for bin, part in ((low, 1 - (place - low)), (low + 1, place - low)):
            self._tries[bin] += part
            self._hits[bin] += part * hit

    def renew(self) -> None:
        """Let the outcomes added so far count, and fade."""
        self._hits = [FORGETTING * value for value in self._hits]
        self._tries = [FORGETTING * value for value in self._tries]
        known = zip(self._hits, self._guess, self._tries, strict=True)
        self._table = [(hits + guess) / (tries + PRIOR_NODES) for hits, guess, tries in known]

    def __call__(self, score: float) -> float:
        """The expected share at a score, interpolated between bins."""
        place = -score * PER_NAT
        if place >= LAST:  # below all bins: by the drafter's probability
            return self._table[-1] * math.exp(score + (BINS - 1) / PER_NAT)
        low = int(place)
        return self._table[low] + (place - low) * (self._table[low + 1] - self._table[low])


class Experience:
    """Measurements of a drafter and its target in one setting, and decisions from them.

    accepted  share of nodes accepted, by their score
    extended  how often an expanded node has an accepted child
    level     seconds to draft a level, by the nodes expanded in it
    verified  seconds to verify, by nodes
    """

    def __init__(self) -> None:
        self.accepted, self.extended = Curve(1.0), Curve(GOES_ON)
        self.level, self.verified = Line(0.05), Line(0.03)
        self.cycles = 0
        self._sums = [0.0] * 5  # of 1, tokens, seconds, nodes kept, nodes expanded

    @property
    def rate(self) -> float:
        """R, tokens per second so far; 0 before anything was measured."""
        _, tokens, seconds, *_ = self._sums
        return tokens / seconds if seconds else 0.0

    @property
    def ready(self) -> bool:
        """Whether enough was measured to size a tree by."""
        return self.cycles >= FIXED_CYCLES

    def to_expand(self, scores: Sequence[float]) -> int:
        """How many of a level's nodes, best first, should be expanded; 0: draft no further.

        Looking one level ahead is nearly enough: each level should gain less than the one above it
        and costs as much. AHEAD accounts for the levels below.
        """
        *_, kept, expanded = self._sums
        children = kept / expanded if expanded else 1.0  # nodes kept for each one expanded
        cost = self.rate * (self.level.each + children * self.verified.each)
        gains = [AHEAD * self.extended(score) - cost for score in scores]
        return _best_count(gains, -self.rate * self.level.fixed, 0.0)

    def to_keep(self, scores: Sequence[float]) -> int:
        """How many of these nodes, best first, should be verified; at least one."""
        cost = self.rate * self.verified.each
        return _best_count([self.accepted(score) - cost for score in scores], 0.0, -math.inf)

    def least(self) -> float:
        """The score below which nodes are not worth verifying, so they can be skipped."""
        cost = self.rate * self.verified.each
        scores = (-bin / PER_NAT for bin in range(BINS))
        return next((score for score in scores if self.accepted(score) < cost), -math.inf)

    def learn(self, gained: int, seconds: float, nodes: int, expanded: int) -> None:
        """A cycle is over: tokens gained, seconds in all, nodes drafted, and expanded ones."""
        weight, _, spent, *_ = self._sums
        if weight:  # cycles differ more than levels do, since trees differ in size
            seconds = min(seconds, 2 * SURPRISE * spent / weight)
        new = (1.0, gained, seconds, nodes, expanded + 1)  # the root was expanded, too
        self._sums = [FADING * old + one for old, one in zip(self._sums, new, strict=True)]
        self.cycles += 1
        self.accepted.renew()
        self.extended.renew()


def _best_count(gains: Sequence[float], worth: float, best: float) -> int:
    """How many of these, from the first, have the largest sum; 0 if it is not above `best`."""
    count = 0
    for place, gain in enumerate(gains, 1):
        worth += gain
        if worth > best:
            best, count = worth, place
    return count


class Sizer(Sizing):
    """Sizes the trees of one run, from the measurements of all runs of its drafter.

    start  the tree of the first cycles, before anything is measured
    clock  seconds, for the times of levels; other times come with the events
    """

    def __init__(
        self, start: TreeSettings, memory: dict[Any, Experience] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:  # fmt: skip
        self.start, self.clock = start, clock
        self.memory: dict[Any, Experience] = {} if memory is None else memory
        self.known = Experience()
        self._nodes: list[Node] | None = None  # of the last tree, if it was sized here

    def fork(self) -> Sizer:
        """For another run, with the same memory."""
        return Sizer(self.start, self.memory, self.clock)

    def at(self, place: Any) -> None:
        """Set the setting of a run: measurements over a link, for example, count only for links."""
        self.known = self.memory.setdefault(place, Experience())

    def begin(self) -> float:
        self._now = self.clock()
        return self.known.least() if self.known.ready else -math.inf

    def to_expand(self, level: Sequence[Node], depth: int, limit: TreeSettings) -> int:
        if depth >= limit.depth:
            return 0
        level = level[: limit.breadth]
        if not self.known.ready:
            return min(self.start.breadth, len(level)) if depth < self.start.depth else 0
        return self.known.to_expand([node.log_prob for node in level])

    def drafted(self, expanded: int) -> None:
        start, self._now = self._now, self.clock()
        self.known.level.add(expanded, self._now - start)

    def keep(self, root: int, tried: Sequence[Node], limit: TreeSettings) -> DraftTree:
        scores = sorted((node.log_prob for node in tried), reverse=True)[: limit.budget]
        count = self.known.to_keep(scores) if self.known.ready else self.start.budget
        self._nodes = best_nodes(tried, min(count, limit.budget))
        return build_tree(root, self._nodes)

    def moved(self, places: Sequence[int]) -> None:
        """The last tree is part of a larger one, in which its nodes have these places."""
        for node in self._nodes or ():
            node.place = places[node.place]

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        nodes, self._nodes = self._nodes, None
        if nodes is None or drafted.offline:
            return
        known, path = self.known, verified.path
        for node in nodes:
            known.accepted.add(node.log_prob, node.place in path)
            if node.expanded:
                known.extended.add(node.log_prob, node.place in path[:-1])
        known.verified.add(len(drafted.tree), verified.seconds)
        if drafted.cycle:  # the first reads the prompt
            expanded = sum(node.expanded for node in nodes)
            at_work = drafted.seconds + verified.seconds + verified.other_seconds
            seconds = at_work + verified.network_seconds
            known.learn(verified.gained, seconds, len(nodes), expanded)
