"""A figure over several runs: its middle, lowest and highest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """middle  the median of the repeats, or the figure of the run that stands for them."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))

    @property
    def known(self) -> bool:
        """Whether the repeats differ at all."""
        return self.low < self.high

    def over(self, other: Spread) -> Spread:
        """This divided by the other: the middles' ratio, and the widest range of ratios."""
        return Spread(self.middle / other.middle, self.low / other.high, self.high / other.low)

    def overlaps(self, other: Spread) -> bool:
        """Whether the two ranges overlap."""
        return self.low <= other.high and other.low <= self.high
