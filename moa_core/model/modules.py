"""What this package relies on in modules of transformers and torch, whose own types say less.

Types alone: a module is declared to be one of these where it is taken over, and stays what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

M = TypeVar("M", bound=PreTrainedModel)


class Passing(Protocol):
    """What layers of transformers ask of a cache: to be given K and V, and to give all of them."""

    def update(
        self, keys: Tensor, values: Tensor, layer: int, /, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]: ...


class Matrix(nn.Module):
    """Embeddings, ids [..] -> [.., E]; a head, [.., E] -> [.., V]; a norm, [.., E] -> [.., E]."""

    weight: Tensor
    out_features: int  # V, of a head

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...


class Backbone(nn.Module):
    """A language model of transformers without its head."""

    layers: nn.ModuleList
    norm: Matrix
    rotary_emb: nn.Module  # (hidden, position_ids=[B, n]) -> cos and sin


def moved(model: M, *where: torch.device | torch.dtype) -> M:
    """`model.to(...)`, whose decorator in transformers hides what it takes and returns."""
    to: Any = model.to
    to(*where)
    return model
