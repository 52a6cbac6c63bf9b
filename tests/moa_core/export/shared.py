"""What several of these tests need: a saved drafter, and the trees that one drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.loading.formats import save_drafter
from moa_core.model.target import Target

TREE = {"depth": 4, "breadth": 2, "budget": 7}


def saved(folder: Path, drafter: Drafter, target: Target, **more: Any) -> str:
    """A drafter's folder in our own layout, in bfloat16."""
    save_drafter(folder, drafter, target, {"tree": TREE, **more}, torch.bfloat16)
    return str(folder)


def drafts(target: Target, drafter: Drafter, prompt: list[int]) -> list[Any]:
    """The trees of a short run."""
    run = decode(target, drafter, prompt, Settings(12, TreeSettings(3, 3, 9)))
    return [event.tree for event in Trace(events=list(run)).of(Drafted)]
