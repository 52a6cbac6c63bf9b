"""Level by level drafters say with kernels what they say with torch, whoever drafted before."""

from types import ModuleType

import pytest
import torch
from torch import Tensor

from moa_core.decoding.tree import DraftTree, Frontier
from moa_core.drafters.base import Drafter, Stepwise
from moa_core.model.target import Target
from moa_core.native.chains import Steps
from moa_core.native.switch import switched
from tests.moa_core.native.shared import round_weights
from tests.models import tiny_target, useful

PROMPT = [5, 9, 33, 7, 21, 40, 11]


def loud(method: str, target: Target) -> Drafter:
    """A drafter whose every part says much, with weights that eight bits hold."""
    drafter = useful(method, target)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in drafter.net.parameters():
            weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
    round_weights(drafter.net)
    return drafter


CHAINS = {
    "moa-n0": {"LSA", "SA", "CA", "head"},
    "moa-n2": {"LSA", "SA", "CA", "TLI layers", "head"},
    "eagle2": {"the net", "head"},
    "glide": {"the net", "head"},
    "independent": {"the net", "head"},
}


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("method", CHAINS)
@torch.inference_mode()
def test_every_level_says_what_torch_says(
    kernels: ModuleType, method: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.inference_mode(False):
        target = tiny_target(family=family)
        drafter = loud(method, target)
        round_weights(target.model)
    asked: set[str] = set()
    serves = Steps.serves

    def noted(chain: Steps, rows: int) -> bool:
        asked.add(chain.name)
        return serves(chain, rows)

    monkeypatch.setattr(Steps, "serves", noted)
    quick = levels_of(target, drafter, [True] * 8)
    assert asked == CHAINS[method]
    slow = levels_of(target, drafter, [False] * 8)
    mixed = levels_of(target, drafter, [True, False, True, True, False, True, False, False])
    for one, other, third in zip(quick, slow, mixed, strict=True):
        assert (one - other).norm() < 0.01 * other.norm()
        assert (third - other).norm() < 0.01 * other.norm()


def levels_of(target: Target, drafter: Drafter, on: list[bool]) -> list[Tensor]:
    """What a drafter says of the root and of three levels, in two cycles, with kernels or not."""
    target, drafter, said, turns = target.fork("int8"), drafter.fork(), [], iter(on)
    assert isinstance(drafter, Stepwise)
    _, seen = target.prefill(PROMPT, 60)
    with switched(next(turns)):
        drafter.open(target, 60)
    for token in (5, 8):
        with switched(next(turns)):
            drafter.observe(seen.ids, drafter.server_half(seen))
            said.append(drafter.root(token)[None])
        nodes = torch.eye(3, dtype=torch.bool)
        for level, parents in enumerate([[0, 0, 0], [0, 0, 2]], 1):
            tokens, above = torch.tensor([3, 9, 14 + level]), torch.tensor(parents)
            nodes = nodes if level == 1 else torch.cat([nodes[above], torch.eye(3).bool()], 1)
            with switched(next(turns)):
                said.append(drafter.expand(Frontier(tokens, above, nodes, level)))
        drafter.forget()
        target.verify(DraftTree((token, 7), (-1, 0), (0, 1), (0.0, 0.0)))
        seen = target.keep((1,))
    return said
