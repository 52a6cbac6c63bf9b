"""Our Muon is torch's, in the precision that is asked for."""

import pytest
import torch
from torch.optim import Muon as TorchMuon

from moa_core.train.muon import Muon

RATE = 1e-2


@pytest.mark.parametrize("shape", [(24, 8), (8, 24), (16, 16)])
@pytest.mark.parametrize(("dtype", "near"), [(torch.bfloat16, 0), (torch.float32, 5e-4)])
def test_it_steps_as_torchs_own_does(shape, dtype, near):
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(shape)) for _ in range(2))
    optimisers = [
        Muon([ours], RATE, dtype),
        TorchMuon([theirs], RATE, 0.0, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(3):
        ours.grad = theirs.grad = torch.randn(shape)
        for optimiser in optimisers:
            optimiser.step()
    assert (ours - theirs).abs().max() <= near
    assert (ours - 1).abs().max() > 10 * near
