"""Medusa (arXiv 2401.10774): one small head per position ahead, all from the same feature."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moa_core.decoding.tree import DraftTree, Frontier, TreeSettings
from moa_core.drafters.base import OutputShapes, ServerOutputs
from moa_core.drafters.trained import Files, Trained
from moa_core.model.target import Observation, Target
from moa_core.untrusted import Whole

HEADS, BLOCKS = 4, 1  # of a fresh Medusa


@dataclass(frozen=True)
class MedusaConfig:
    """width: E. heads: positions ahead. blocks: residual blocks in each head."""

    width: int
    heads: int
    blocks: int


class MedusaNet(nn.Module):
    """Residual blocks x + SiLU(Wx) for each position ahead, and the target's head behind a matrix.

    The paper's heads each have a vocabulary matrix of their own, which would be many times as large
    as any other drafter: here it is the target's, times [E, E]. Without this factor, a block could
    only add to a feature, and so hardly take the next token back.
    """

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width) for _ in range(config.blocks))
            for _ in range(config.heads)
        )
        self.turns = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(config.heads))

    def forward(self, features: Tensor) -> Tensor:
        """[.., E] features of token t -> [.., K, E]; row k predicts token t + 2 + k."""
        ahead = []
        for head, turn in zip(self.heads, self.turns, strict=True):
            hidden = features
            for block in cast(nn.ModuleList, head):
                hidden = hidden + F.silu(block(hidden))
            ahead.append(turn(hidden))
        return torch.stack(ahead, -2)


class MedusaDrafter(Trained):
    """Drafts each level from its own head, independently of the levels above it."""

    method, label = "medusa", "Medusa"
    net: MedusaNet
    net_class = MedusaNet

    def open(self, target: Target, capacity: int) -> None:
        self.target, self.head = target, self.head_for(target)
        self._feature: Tensor | None = None  # [1, E] of the last verified token

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        """E numbers, of the last token only."""
        return {"feature": observation.hidden[-1:]}

    def output_shapes(self, target: Target, count: int) -> OutputShapes:
        return {"feature": (1, target.config.hidden_size)}

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self._feature = outputs["feature"][-1:]  # over a link there may be several parts

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        levels = min(settings.depth, self.net.config.heads)
        assert self._feature is not None, "observe first"
        logits = self.ahead(self._feature)

        def expand(frontier: Frontier) -> Tensor:
            return logits[frontier.level].expand(len(frontier.tokens), -1)

        return self.grow(token, logits[0], expand, replace(settings, depth=levels))

    def ahead(self, feature: Tensor) -> Tensor:
        """The feature [1, E] of the last verified token -> logits [K, D] of each position ahead."""
        found: Tensor = self.head(self.net(feature)[0])
        return found

    @classmethod
    def sizes(cls, files: Files, target: Target) -> MedusaConfig:
        heads, blocks = (files.value(key, Whole) for key in ("heads", "blocks"))
        files.check_count(heads * (2 * blocks + 1))
        return MedusaConfig(target.config.hidden_size, heads, blocks)

    def config_keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"heads": self.net.config.heads, "blocks": self.net.config.blocks}, {}

    @classmethod
    def fresh_sizes(cls, target: Target, inner: int = 0) -> MedusaConfig:
        return MedusaConfig(target.config.hidden_size, HEADS, BLOCKS)

    @classmethod
    def fresh(cls, target: Target, budget: int, name: str) -> Self:
        """As the paper's, smaller than `budget`: more blocks learn more slowly."""
        net = MedusaNet(cls.fresh_sizes(target))
        for weight in net.heads.parameters():  # as in the paper: a head starts as the target's
            nn.init.zeros_(weight)
        for turn in net.turns:
            nn.init.eye_(cast(nn.Linear, turn).weight)
        return cls(net, target, name)
