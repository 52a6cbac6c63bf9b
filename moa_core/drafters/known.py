"""Drafters without weights, by name. Those with weights are known by the `method` in their config:
see `loading/drafter_files.py`."""

from __future__ import annotations

from collections.abc import Callable

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.ngram import NgramDrafter

WITHOUT_WEIGHTS: dict[str, Callable[[], Drafter]] = {
    NgramDrafter.name: NgramDrafter,
    Vanilla.name: Vanilla,
}
