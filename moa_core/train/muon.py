"""Muon (arXiv 2502.16982) in any precision."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

STEPS = (3.4445, -4.7750, 2.0315), 5  # a, b, c of the Newton-Schulz step, and how many
MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):
    """`torch.optim.Muon` at AdamW's step size (2.2), without decay.

    torch's own multiplies in bf16 alone, which a processor without it computes far slower than
    float32.
    """

    def __init__(self, params: Iterable[nn.Parameter], rate: float, dtype: torch.dtype) -> None:
        """params: matrices. dtype: of the products."""
        super().__init__(params, {"lr": rate})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(param)
                mean = state["momentum_buffer"]
                mean.lerp_(param.grad, 1 - MOMENTUM)
                ahead = param.grad.lerp(mean, MOMENTUM)  # Nesterov's
                scale = 0.2 * math.sqrt(max(param.shape))
                param.add_(self._orthogonal(ahead), alpha=-group["lr"] * scale)

    def _orthogonal(self, matrix: Tensor) -> Tensor:
        """[m, n] -> about U V^T of its singular value decomposition U S V^T."""
        (a, b, c), steps = STEPS
        wide = matrix.to(self._dtype)
        tall = wide.shape[0] > wide.shape[1]
        if tall:
            wide = wide.T
        wide = wide / wide.norm().clamp(min=1e-7)
        for _ in range(steps):
            gram = wide @ wide.T
            wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
        return wide.T if tall else wide
