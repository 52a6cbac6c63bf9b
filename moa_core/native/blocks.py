"""Whom compiled kernels serve; and the choice of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from moa_core.native.switch import kernels, most_rows, prepare


def serves(target: Any) -> bool:
    """Whether kernels may draft for a target: in float32, on a processor, not to be eager."""
    return bool(target.device.type == "cpu" and target.dtype == torch.float32 and target.graphs)


def prepare_for(target: Any, later: bool = False) -> None:
    """Have the kernels, if they may draft for this target: see `switch.prepare`."""
    if serves(target):
        prepare(later)


def kernels_for(x: Tensor) -> Any:
    """The kernels; None where they are not for such numbers: float32, on a processor, few rows."""
    if (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() <= most_rows() * x.shape[-1]
        and not torch.is_grad_enabled()
    ):
        return kernels()
    return None


def best(logits: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
    """Log-probabilities and ids [n, count] of the most probable tokens after logits [n, V]."""
    if (kernels := kernels_for(logits)) is None:
        return None
    log_probs, ids = kernels.best(np.ascontiguousarray(logits.numpy()), count)
    return torch.from_numpy(log_probs), torch.from_numpy(ids)
