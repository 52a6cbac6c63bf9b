"""The authors' numbers in tests/parity: models, prompts, tensors; and a way to look inside ours."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.moa import MoADrafter
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target
from tests.properties import paths

FOLDER = Path(__file__).parent / "parity"
CLOSE = {"atol": 1e-4, "rtol": 0.0}
NEAR_TIE = 2e-5  # of a tree's cut: closer than this, another order of additions may decide
EOS = 197  # the released target's end of text, which it never writes


@cache
def target() -> Target:
    """The released target; decoding forks it, so that tests can share it."""
    return load_target(str(FOLDER / "target"), drafts="float32")


def moa(tli: int) -> MoADrafter:
    """The released drafter for an N, as the authors' training class saves it."""
    return load_drafter(str(FOLDER / f"moa_n{tli}"), target(), tli)


@cache
def numbers(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def tensors(name: str) -> dict[str, Tensor]:
    return load_file(FOLDER / f"{name}.safetensors")


def prompt(name: str = "prompt1_len24") -> list[int]:
    return numbers("prompts")[name]


Calls = list[tuple[Tensor, Any]]


def recorded(patch: pytest.MonkeyPatch, module: nn.Module, method: str = "forward") -> Calls:
    """From now on, the first argument and the result of every call of a module's method."""
    calls: Calls = []
    original = getattr(module, method)

    def wrapped(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = original(first, *args, **kwargs)
        calls.append((first, result))
        return result

    patch.setattr(module, method, wrapped)
    return calls


@torch.inference_mode()
def propose(drafter: Drafter, token: int, shape: TreeSettings) -> DraftTree:
    return drafter.propose(token, shape)


def check_nodes(tree: DraftTree, expected: dict[str, Any]) -> None:
    """The same paths with the same scores, whatever the order of near ties."""
    theirs = DraftTree(
        tuple(expected["tokens"]), tuple(expected["parents"]), (), tuple(expected["scores"])
    )
    assert tree.tokens[0] == theirs.tokens[0]
    found, wanted = (dict(zip(paths(one), one.log_probs, strict=True)) for one in (tree, theirs))
    assert found.keys() == wanted.keys()
    assert found == pytest.approx(wanted, abs=1e-4)
