"""Medusa (arXiv 2401.10774): one small head per position ahead, all from the same feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import Drafter, HalfShapes, ServerHalf
from moa_core.model.target import Observation, Target


@dataclass(frozen=True)
class MedusaConfig:
    """heads: positions ahead. blocks: residual blocks in each head."""

    heads: int
    blocks: int


class MedusaNet(nn.Module):
    """Residual blocks x + SiLU(Wx) for each position ahead; the target's head reads their outputs.

    The paper's heads each have a vocabulary matrix, which would be many times as large as any other
    drafter.
    """

    def __init__(self, config: MedusaConfig, width: int) -> None:
        super().__init__()
        self.config = config
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width) for _ in range(config.blocks))
            for _ in range(config.heads)
        )

    def forward(self, features: Tensor) -> Tensor:
        """[.., E] features of token t -> [.., K, E]; row k predicts token t + 2 + k."""
        ahead = []
        for head in self.heads:
            hidden = features
            for block in cast(nn.ModuleList, head):
                hidden = hidden + F.silu(block(hidden))
            ahead.append(hidden)
        return torch.stack(ahead, -2)


class MedusaDrafter(Drafter):
    """Drafts each level from its own head, independently of the levels above it."""

    name = "medusa"
    net: MedusaNet

    def __init__(self, net: MedusaNet, target: Target, name: str = "medusa") -> None:
        self.net = net
        self.name = name

    def open(self, target: Target, capacity: int) -> None:
        self.target, self.head = target, self.head_for(target)
        self._feature: Tensor | None = None  # [1, E] of the last verified token

    def server_half(self, observation: Observation) -> ServerHalf:
        """E numbers, of the last token only."""
        return {"feature": observation.hidden[-1:]}

    def half_shapes(self, target: Target, count: int) -> HalfShapes:
        return {"feature": (1, target.config.hidden_size)}

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        self._feature = half["feature"][-1:]  # over a link there may be several parts

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        levels = min(settings.depth, self.net.config.heads)
        assert self._feature is not None, "observe first"
        logits = self._ahead(self._feature)[:levels]
        return self.grow(
            token,
            logits[0],
            lambda frontier: logits[frontier.level].expand(len(frontier.tokens), -1),
            replace(settings, depth=levels),
        )

    def _ahead(self, feature: Tensor) -> Tensor:
        """[1, E] -> logits [K, D] of each position ahead."""
        return self.head(self.net(feature)[0])
