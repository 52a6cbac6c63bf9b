"""Muon in float32. torch's is in bf16, which is slow on processors that only emulate it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315  # coefficients of Muon's authors
STEPS = 5


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum at AdamW's step size, for matrices (arXiv 2502.16982, 2.2).

    State and settings are named as in `torch.optim.Muon`.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for weight in group["params"]:
                if (gradient := weight.grad) is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(gradient)
                mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
                direction = orthogonal(gradient.lerp(mean, momentum))
                size = 0.2 * max(weight.shape) ** 0.5
                weight.mul_(1 - rate * group["weight_decay"]).sub_(direction, alpha=rate * size)


def orthogonal(matrix: Tensor) -> Tensor:
    """Approximately the nearest [m, n] matrix with all singular values 1, by Newton-Schulz."""
    tall = matrix.shape[0] > matrix.shape[1]
    wide: Tensor = matrix.float().mT if tall else matrix.float()
    wide = wide / wide.norm().clamp(min=1e-7)
    first, second, third = NEWTON_SCHULZ
    for _ in range(STEPS):
        gram = wide @ wide.mT
        wide = first * wide + (second * gram + third * gram @ gram) @ wide
    return wide.mT if tall else wide
