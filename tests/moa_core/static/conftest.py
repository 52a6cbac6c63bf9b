"""Decoding in static shapes on a CPU, where tapes stand in for CUDA graphs."""

from collections.abc import Iterator

import pytest
import torch

from moa_core.static import players, slots
from moa_core.static.players import Tapes

STEP = 32  # slots of a bucket: a text of a hundred tokens crosses several


@pytest.fixture
def taped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tapes]]:
    """While a test runs, CPUs have players too; all of them, in the order they were made."""
    made: list[Tapes] = []

    def player(device: torch.device) -> Tapes:
        made.append(Tapes(device))
        return made[-1]

    monkeypatch.setitem(players.PLAYERS, "cpu", player)
    monkeypatch.setattr(slots, "STEP", STEP)
    yield made
