"""Which runs draft with compiled kernels, in eight bits; and the choice of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from moa_core.native.switch import kernels, most_rows, prepare


def suit(target: Any) -> bool:
    """Whether there can be kernels for a target: they need float32 on a processor."""
    return bool(target.device.type == "cpu" and target.dtype == torch.float32)


def serves(target: Any) -> bool:
    """Whether kernels draft in a run of this target."""
    return target.drafts == "int8" and suit(target)


def prepare_for(target: Any, later: bool = False) -> None:
    """Have the kernels, unless nothing drafts with them for this target: see `switch.prepare`."""
    if target.drafts != "float32" and suit(target):
        prepare(later)


def draft_precision(target: Any, drafter: Any) -> str | None:
    """The numbers that a drafter drafts in for a target: int8 with kernels, else the target's
    format. None for a method without a network."""
    if drafter.precision is None:
        return None
    if drafter.precision == "int8" and suit(target) and kernels() is not None:
        return "int8"
    return str(target.dtype).removeprefix("torch.")


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
