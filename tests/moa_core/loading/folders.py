"""Folders of saved drafters: made, changed, and refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target
from tests.models import useful

METHODS = ("moa-n0", "moa-n2", "eagle2")
WEIGHTS = "model.safetensors"
TREE = {"depth": 4, "breadth": 2, "budget": 7}


def save(folder: Path, drafter: Drafter, target: Target) -> str:
    save_drafter(folder, drafter, target, {"tree": TREE}, torch.float32)
    return str(folder)


def saved(folder: Path, method: str, target: Target) -> str:
    return save(folder, useful(method, target), target)


def edit(folder: Path, ours: Any = None, **changes: Any) -> None:
    """Change keys of a config; None takes one away. ours: keys under "drafter"."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    if ours is not None:
        config["drafter"] |= ours
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def refused(folder: str, target: Target, tli: int | None = None) -> str:
    """The sentence it is refused with."""
    with pytest.raises(UserError) as caught:
        load_drafter(folder, target, tli)
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence
