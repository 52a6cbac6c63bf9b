"""An independent drafter: a small language model with the target's tokenizer. It reads nothing else
of the target."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from moa_core.drafters.base import Reader, ServerOutputs
from moa_core.drafters.trained import LAYER, Files, Trained, initialised, widened
from moa_core.errors import is_whole
from moa_core.model.layers import rows_mask
from moa_core.model.target import Matrix, Target
from moa_core.untrusted import Whole

LAYERS = 2  # of a fresh one


class IndependentDrafter(Trained, Reader):
    """Drafts with any small decoder model that writes the target's token ids.

    small  the model, driven like a target; its embeddings and head may be the target's own
    net    its layers and final norm, which are trained and saved
    """

    method, label = "independent", "Independent model"

    def __init__(self, small: Target, target: Target, name: str = "") -> None:
        super().__init__(own_parts(small.model), target, name)
        self.small = small

    def head_for(self, target: Target) -> Matrix:
        return (target if self.small.head is target.head else self.small).head_of(self.vocabulary)

    def open(self, target: Target, capacity: int) -> None:
        self.target, self.head = target, self.head_for(target)
        self.ids = []
        self.text = self.small.tail_cache(len(self.small.layers), capacity)

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
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

    def states(
        self, embedded: Tensor, before: Tensor, positions: Tensor, visible: Tensor
    ) -> Tensor:
        return self.small.run_layers(embedded, positions, visible, None)

    @classmethod
    def recognises(cls, config: Mapping[str, Any], tensors: Collection[str]) -> bool:
        return is_whole(config.get("num_hidden_layers"), 2)

    @classmethod
    def sizes(cls, files: Files, target: Target) -> LlamaConfig:
        """A small Llama that borrows the target's embeddings and head."""
        count = files.value("num_hidden_layers", Whole)
        files.check_count(count)
        return small_config(target, count, *files.layer_values())

    @classmethod
    def from_files(cls, files: Files, target: Target, tli: int | None) -> Self:
        own = files.fill(lambda: own_parts(LlamaForCausalLM(cls.sizes(files, target))))
        drafter = cls(borrowing(cls.sizes(files, target), target), target, files.name)
        if target.device.type != "meta":  # an export needs the shapes alone
            drafter.net.load_state_dict(own.state_dict())
        drafter.net.eval().requires_grad_(False)
        return drafter

    def config_keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        keys = ("num_hidden_layers", *LAYER)
        small = {key: getattr(self.small.config, key) for key in keys}
        return {**small, "embeddings": "the target's"}, {}

    @classmethod
    def fresh_sizes(cls, target: Target, inner: int = 0) -> LlamaConfig:
        heads = target.config.num_attention_heads
        return small_config(target, LAYERS, heads, target.kv_heads, inner)

    @classmethod
    def fresh(cls, target: Target, budget: int, name: str) -> Self:
        def net(inner: int) -> Any:
            return own_parts(borrowing(cls.fresh_sizes(target, inner), target).model)

        inner = widened(net, budget)["layers"][0].mlp.gate_proj.out_features
        drafter = cls(borrowing(cls.fresh_sizes(target, inner), target), target, name)
        initialised(drafter.net)
        return drafter


def small_config(target: Target, layers: int, heads: int, kv_heads: int, inner: int) -> LlamaConfig:
    """A Llama config around a target's embeddings and head."""
    keys = ("vocab_size", "hidden_size", "rms_norm_eps", "max_position_embeddings")
    ends = ("bos_token_id", "eos_token_id", "pad_token_id")
    shared: dict[str, Any] = {key: getattr(target.config, key) for key in (*keys, *ends)}
    shared["attn_implementation"] = "sdpa"
    return LlamaConfig(
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=target.head_dim,
        rope_parameters=dict(target.config.rope_parameters),
        tie_word_embeddings=False,
        **shared,
    )


def own_parts(model: PreTrainedModel) -> nn.ModuleDict:
    """The drafter's own parts of a model that borrows embeddings and head."""
    decoder: Any = model.base_model
    return nn.ModuleDict({"layers": decoder.layers, "norm": decoder.norm})


def borrowing(config: LlamaConfig, target: Target) -> Target:
    """A new small Llama with the target's embeddings and head, device and dtype."""
    model: Any = LlamaForCausalLM(config)  # `to` has no types
    model.to(target.device, target.dtype)
    model.set_input_embeddings(target.embed)
    model.set_output_embeddings(target.model.get_output_embeddings())
    return Target(model, name="independent")
