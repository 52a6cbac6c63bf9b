"""An independent drafter: a small language model with the target's tokenizer. It reads nothing else
of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from moa_core.drafters.base import Reader, ServerHalf
from moa_core.model.layers import rows_mask
from moa_core.model.target import Matrix, Target, moved


class IndependentDrafter(Reader):
    """Drafts with any small decoder model that writes the target's token ids.

    small  the model, driven like a target; its embeddings and head may be the target's own
    net    its layers and final norm, which are trained and saved
    """

    name = "independent"

    def __init__(self, small: Target, target: Target, name: str = "independent") -> None:
        self.small = small
        self.name = name
        self.net = own_parts(small.model)

    def head_for(self, target: Target) -> Matrix:
        return (target if self.small.head is target.head else self.small).head_of(self.vocabulary)

    def open(self, target: Target, capacity: int) -> None:
        self.target, self.head = target, self.head_for(target)
        self.ids = []
        self.text = self.small.tail_cache(len(self.small.layers), capacity)

    def observe(self, ids: Sequence[int], half: ServerHalf) -> None:
        self.ids.extend(ids)

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        count, past = len(tokens), self.text.length
        hidden = self.small.embed(tokens)[None]  # [1, n, E]
        places = start + torch.arange(count, device=tokens.device)
        places = places if seen is None else torch.full_like(places, start)
        mask = rows_mask(count, past, seen, hidden.device)
        hidden = self.small.read_layers(hidden, places[None], mask, self.text)
        self.text.advance(count)
        return self.head(hidden)[0, :, : self.target.config.vocab_size]


def own_parts(model: PreTrainedModel) -> nn.ModuleDict:
    """The drafter's own parts of a model that borrows embeddings and head."""
    decoder: Any = model.base_model
    return nn.ModuleDict({"layers": decoder.layers, "norm": decoder.norm})


def borrowing(config: LlamaConfig, target: Target) -> Target:
    """A new small Llama with the target's embeddings and head, device and dtype."""
    model = moved(LlamaForCausalLM(config), target.device, target.dtype)
    model.set_input_embeddings(target.embed)
    model.set_output_embeddings(target.model.get_output_embeddings())
    return Target(model, name="independent")


def as_model(drafter: IndependentDrafter) -> PreTrainedModel:
    """The small model, for transformers' assisted generation."""
    model: PreTrainedModel = drafter.small.model
    return model
