"""How long a run is, how fast it learns when, and with which optimisers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from moa_core.errors import UserError


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    updates  optimiser steps; None: as many as fit into `minutes`, which then must be given
    rates    peak learning rate by model name, "" for all others
    muon     Muon for the weight matrices, embeddings left out; else AdamW for all
    """

    updates: int | None
    rates: Mapping[str, float]
    minutes: float | None = None
    warmup: int = 200
    floor: float = 0.05
    decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    muon: bool = False

    def __post_init__(self) -> None:
        if self.updates is None and self.minutes is None:
            raise UserError("Say how long to train: give either updates or minutes.")

    def rate(self, name: str) -> float:
        """A model's peak learning rate."""
        return self.rates.get(name, self.rates.get("", 1e-3))

    def factor(self, update: int, updates: int) -> float:
        """Share of the peak rate: a linear rise, then a cosine down to the floor."""
        warmup = min(self.warmup, max(1, updates // 10))
        if update < warmup:
            return (update + 1) / warmup
        progress = (update - warmup) / max(1, updates - warmup)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def optimisers(schedule: Schedule, name: str, model: nn.Module) -> list[torch.optim.Optimizer]:
    """AdamW, or Muon and AdamW, for a model's trainable weights."""
    rate = schedule.rate(name)
    weights = [(key, p) for key, p in model.named_parameters() if p.requires_grad]
    matrices = [p for key, p in weights if p.ndim > 1 and "embed" not in key]
    tables = [p for key, p in weights if p.ndim > 1 and "embed" in key]
    rest = {"params": [p for _, p in weights if p.ndim < 2], "weight_decay": 0.0}
    if schedule.muon:
        muon = torch.optim.Muon(
            matrices, lr=rate, weight_decay=schedule.decay, adjust_lr_fn="match_rms_adamw"
        )
        others = [{"params": tables, "weight_decay": schedule.decay}, rest]
        return [muon, torch.optim.AdamW(others, lr=rate, betas=schedule.betas)]
    groups = [{"params": matrices + tables, "weight_decay": schedule.decay}, rest]
    return [torch.optim.AdamW(groups, lr=rate, betas=schedule.betas)]
