"""Root-mean-square norm."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x over its root mean square, times a weight a number; in float32 inside as in the target."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        # At 1; the authors' release draws fresh norm weights around 0.
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps
        self.scale = math.sqrt(width)  # of a vector whose root mean square is 1: its length
        self._least = torch.tensor(math.sqrt(width * eps), device="cpu")

    def forward(self, x: Tensor) -> Tensor:
        """[.., width] -> the same"""
        if x.dtype == torch.float32 or not torch.is_grad_enabled():
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)

    def direction(self, x: Tensor) -> Tensor:
        """`forward` of float32 [.., width] on a processor, not yet times the weights and `scale`:
        those can be multiplied into the matrix that reads it.

        Three operations where F.rms_norm takes six there, and between matrix products each takes
        several times as long as by itself (assets/results/README.md, "Norms where they stand").
        """
        # The length of (x, sqrt(W eps)) is sqrt(W) times the root of x's mean square plus eps.
        length: Tensor = torch.linalg.vector_norm(x, 2, -1, True).hypot_(self._least)
        return x / length
