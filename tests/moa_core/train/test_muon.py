import pytest
import torch

from moa_core.train.muon import Muon


@pytest.mark.parametrize("shape", [(24, 64), (64, 24), (32, 32)])
def test_steps_are_those_of_torch_but_for_its_bf16(shape):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=generator)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimisers = [
        Muon([ours], 0.02, weight_decay=0.1),
        torch.optim.Muon([theirs], 0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(3):
        gradient = torch.randn(shape, generator=generator)
        for weight, optimiser in zip((ours, theirs), optimisers, strict=True):
            weight.grad = gradient.clone()
            optimiser.step()
    moved = theirs - start
    assert (ours - theirs).norm() < 0.02 * moved.norm()
