"""What one more drafted level, and one more node to verify, costs and gains. Knows no tensors.

Most tokens per second are reached by taking whatever gains more tokens than the same seconds gain
on average (Dinkelbach's rule for ratios): with R tokens per second so far, something that takes t
seconds pays if it is expected to gain more than R * t tokens. Both sides are measured as decoding
goes on: seconds as lines through recent times, gains as how often nodes of a like score were
accepted. So easy text gets deep trees, hard text shallow ones, and a slow way to the target, which
makes R small, larger ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

STATIC = 3  # cycles with the tree that was asked for, before anything is known
FADING = 0.98  # of a measured time, or of R, with every cycle: some 50 are remembered
FORGETTING = 0.995  # of what became of a node: some 200 cycles are remembered
SURPRISE = 2.0  # times what was expected: where a time is cut off, since a hiccup says nothing
BINS, PER_NAT = 18, 3.0  # scores from 0 down to -5.67, three bins for each factor e
PRIOR = 3.0  # nodes that the first guess of a bin counts as much as
GOES_ON = 0.7  # first guess: how often the target goes on within the tree after an accepted node
AHEAD = 1.25  # worth of a level in its own gain: if it turns out well, those below it pay, too


class Line:
    """Seconds by size: fixed + each * size, through decayed times.

    share  first guess of `each`, as a share of the fixed part: what counts until sizes differ
    """

    def __init__(self, share: float) -> None:
        self.fixed = self.each = 0.0
        self._share = share
        self._count = self._x = self._y = self._xx = self._xy = 0.0

    def add(self, size: float, seconds: float) -> None:
        """Take in one time. A first call is slow, and what comes after it takes its place."""
        expected = self(size)
        if self._count and seconds * SURPRISE < expected and self._count < 4:
            self._count = self._x = self._y = self._xx = self._xy = 0.0
        elif self._count:
            seconds = min(seconds, SURPRISE * expected)
        self._count = FADING * self._count + 1
        self._x = FADING * self._x + size
        self._y = FADING * self._y + seconds
        self._xx = FADING * self._xx + size * size
        self._xy = FADING * self._xy + size * seconds
        x, y = self._x / self._count, self._y / self._count
        varied = self._xx - self._count * x * x
        together = self._xy - self._count * x * y
        guess = y * self._share / (1 + self._share * x)  # the first one, as a number of seconds
        trust = 2 * (1 + x)  # in squares of sizes
        # Where times are all noise a slope of nothing would make trees as large as can be.
        self.each = max((together + trust * guess) / (varied + trust), guess / 4)
        self.fixed = max(y - self.each * x, 0.0)

    def __call__(self, size: float) -> float:
        return self.fixed + self.each * size


class Curve:
    """How often something comes of nodes, by their score: decayed counts in bins.

    certain  first guess for a score of 0; a score of s begins at certain * exp(s), which is what
             the drafter itself says where scores are its log-probabilities
    """

    def __init__(self, certain: float) -> None:
        self._guess = [PRIOR * certain * math.e ** (-bin / PER_NAT) for bin in range(BINS)]
        self._hits, self._tries = [0.0] * BINS, [0.0] * BINS
        self._table: list[float] = [guess / PRIOR for guess in self._guess]

    def add(self, score: float, hit: bool) -> None:
        """Something came of a node with this score, or did not. Counts from `renew` on."""
        place = min(-score * PER_NAT, BINS - 1.001)
        low = int(place)
        part = place - low
        self._tries[low] += 1 - part
        self._tries[low + 1] += part
        if hit:
            self._hits[low] += 1 - part
            self._hits[low + 1] += part

    def renew(self) -> None:
        """A cycle is over."""
        self._hits = [FORGETTING * value for value in self._hits]
        self._tries = [FORGETTING * value for value in self._tries]
        known = zip(self._hits, self._guess, self._tries, strict=True)
        self._table = [(hits + guess) / (tries + PRIOR) for hits, guess, tries in known]

    def __call__(self, score: float) -> float:
        """The share expected at a score, between bins by a straight line."""
        place = -score * PER_NAT
        if place >= BINS - 1.001:  # below all bins: as the drafter says
            return self._table[-1] * math.exp(score + (BINS - 1) / PER_NAT)
        low = int(place)
        return self._table[low] + (place - low) * (self._table[low + 1] - self._table[low])


class Experience:
    """What was learnt of a drafter and its target at one place, and what follows for the next tree.

    accepted  of nodes, by their score
    extended  of expanded nodes: that a child of theirs was accepted
    level     seconds to draft a level, by the nodes expanded in it
    verified  seconds to verify, by nodes
    """

    def __init__(self) -> None:
        self.accepted, self.extended = Curve(1.0), Curve(GOES_ON)
        self.level, self.verified = Line(0.05), Line(0.03)
        self.cycles = 0
        self._tokens = self._seconds = self._weight = 0.0
        self._kept = self._expanded = 0.0

    @property
    def rate(self) -> float:
        """R, tokens per second so far; 0 before anything was measured."""
        return self._tokens / self._seconds if self._seconds else 0.0

    @property
    def ready(self) -> bool:
        """Whether enough was measured to size a tree by."""
        return self.cycles >= STATIC

    def to_expand(self, scores: Sequence[float]) -> int:
        """How many of a level's nodes, best first, should be expanded; 0: draft no further.

        One level ahead is nearly far enough to look: a level is expected to gain less than the one
        above it and costs as much. What it tells is worth something, too: hence AHEAD.
        """
        rate, children = self.rate, self._children()
        cost = rate * (self.level.each + children * self.verified.each)
        worth, best, count = -rate * self.level.fixed, 0.0, 0
        for place, score in enumerate(scores, 1):
            worth += AHEAD * self.extended(score) - cost
            if worth > best:
                best, count = worth, place
        return count

    def to_keep(self, scores: Sequence[float]) -> int:
        """How many of these nodes, best first, should be verified; one at least."""
        cost = self.rate * self.verified.each
        worth, best, count = 0.0, float("-inf"), 0
        for place, score in enumerate(scores, 1):
            worth += self.accepted(score) - cost
            if worth > best:
                best, count = worth, place
        return count

    def least(self) -> float:
        """The score from which on nodes are surely not worth verifying: no need to look at them."""
        cost = self.rate * self.verified.each
        place = next((bin for bin in range(BINS) if self.accepted(-bin / PER_NAT) < cost), BINS)
        return -place / PER_NAT if place < BINS else float("-inf")

    def learn(self, gained: int, seconds: float, nodes: int, expanded: int) -> None:
        """A cycle is over: tokens gained, seconds in all, nodes drafted, and expanded ones."""
        if self._weight:
            seconds = min(seconds, 2 * SURPRISE * self._seconds / self._weight)
        self._weight = FADING * self._weight + 1
        self._tokens = FADING * self._tokens + gained
        self._seconds = FADING * self._seconds + seconds
        self._kept = FADING * self._kept + nodes
        self._expanded = FADING * self._expanded + expanded + 1  # the root
        self.cycles += 1
        self.accepted.renew()
        self.extended.renew()

    def _children(self) -> float:
        """Nodes kept for each one expanded."""
        return self._kept / self._expanded if self._expanded else 1.0
