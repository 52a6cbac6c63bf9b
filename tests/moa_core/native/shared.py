"""What tests of compiled kernels share."""

from types import ModuleType
from typing import Any

import torch
from torch import nn


@torch.no_grad()
def round_weights(module: nn.Module) -> None:
    """Have matrices that eight bits hold, as kernels pack them: then torch says the same."""
    for each in module.modules():
        if isinstance(each, nn.Linear):
            scale = each.weight.abs().amax(1, keepdim=True) / 127
            each.weight.data = (each.weight / scale.clamp_min(1e-30)).round() * scale


class Calls:
    """The kernels, and which of them were called, by name."""

    def __init__(self, kernels: ModuleType) -> None:
        self.kernels, self.names = kernels, []

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return getattr(self.kernels, name)
