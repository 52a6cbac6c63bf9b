"""Drafters that have no weights, by the names under which commands, benchmarks and the page offer
them. Those with weights are known by the `method` in their config: see `peers` and `formats`."""

from __future__ import annotations

from collections.abc import Callable

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.ngram import NgramDrafter
from moa_core.loading.names import NGRAM, VANILLA

WITHOUT_WEIGHTS: dict[str, Callable[[], Drafter]] = {
    NGRAM: NgramDrafter,
    VANILLA: Vanilla,
}
