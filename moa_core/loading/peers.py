"""Files of the methods that MoA is compared with: Medusa, GLIDE and an independent model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from moa_core.drafters.base import Drafter
from moa_core.drafters.glide import GlideConfig, GlideDrafter, GlideNet
from moa_core.drafters.independent import IndependentDrafter, borrowing, own_parts
from moa_core.drafters.medusa import MedusaConfig, MedusaDrafter, MedusaNet
from moa_core.errors import UserError, first_line
from moa_core.loading.fitting import (
    Tensors,
    bare,
    check_shapes,
    filled,
    norm_eps,
    same,
    tokenizer_hash,
    whole,
)
from moa_core.loading.strangers import careful
from moa_core.model.target import Target, moved


def build_peer(
    method: str, config: dict[str, Any], tensors: Tensors, target: Target, name: str
) -> Drafter | None:
    """A Medusa, GLIDE or independent drafter from its files; None for any other method."""
    if method == "medusa":
        sizes = MedusaConfig(_size(config, "heads", name), _size(config, "blocks", name))
        _check_parts(2 * sizes.heads * sizes.blocks, tensors, name)
        net = bare(lambda: MedusaNet(sizes, target.config.hidden_size), name)
        return MedusaDrafter(filled(net, tensors, name, target), target, name)
    if method == "glide":
        shape = _glide_config(config, target, name)
        glide = bare(lambda: GlideNet(shape), name)
        return GlideDrafter(filled(glide, tensors, name, target), target, name)
    if method == "independent":
        llama = _llama_config(config, target, name)
        _check_parts(llama.num_hidden_layers, tensors, name)
        check_shapes(
            bare(lambda: own_parts(LlamaForCausalLM(llama)), name).state_dict(), tensors, name
        )
        drafter = IndependentDrafter(borrowing(llama, target), target)
        drafter.name = name
        filled(drafter.net, tensors, name, target)
        return drafter
    return None


def whole_model(folder: Path, target: Target, name: str) -> IndependentDrafter:
    """An independent drafter from a complete model folder, its own embeddings and head included."""
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=target.dtype, **careful())
    except Exception as error:  # transformers raises many kinds; all mean: not loadable
        raise UserError(f"The drafter {name} cannot be loaded: {first_line(error)}") from error
    if model.config.vocab_size < target.config.vocab_size:
        same(name, "vocabulary", model.config.vocab_size, target.config.vocab_size)
    small = Target(moved(model, target.device).requires_grad_(False), name=name)
    return IndependentDrafter(small, target, name)


def check_tokenizer(theirs: Any, target: Target, name: str) -> None:
    """UserError if an independent model writes other token ids than the target."""
    ours = target.tokenizer
    found, wanted = tokenizer_hash(theirs), tokenizer_hash(ours)
    if ours is None or not found or not wanted or found == wanted:
        return
    if theirs.get_vocab() != ours.get_vocab():
        raise UserError(f"{name} does not fit this target: it has another tokenizer.")


def peer_keys(drafter: Drafter) -> tuple[str, dict[str, Any]] | None:
    """Method and config keys of a peer; None if it is none of these."""
    if isinstance(drafter, MedusaDrafter):
        return "medusa", asdict(drafter.net.config)
    if isinstance(drafter, GlideDrafter):
        sizes = drafter.net.config
        return "glide", {
            "num_attention_heads": sizes.heads,
            "num_key_value_heads": sizes.kv_heads,
            "intermediate_size": sizes.inner,
        }
    if isinstance(drafter, IndependentDrafter):
        config = drafter.small.config
        return "independent", {
            "num_hidden_layers": config.num_hidden_layers,
            "num_attention_heads": config.num_attention_heads,
            "num_key_value_heads": config.num_key_value_heads,
            "intermediate_size": config.intermediate_size,
            "embeddings": "the target's",
        }
    return None


def parameters(net: nn.Module) -> int:
    """Numbers in a drafter's net; what it borrows from its target is not counted."""
    return sum(weight.numel() for weight in net.parameters())


def _check_parts(count: int, tensors: Tensors, name: str) -> None:
    """Before they are made: a file has at least a tensor for each part of what it says it holds."""
    if count > len(tensors):
        raise UserError(f"{name} has {len(tensors)} tensors, too few for what its config says.")


def _glide_config(config: dict[str, Any], target: Target, name: str) -> GlideConfig:
    heads = _size(config, "num_attention_heads", name)
    same(name, "heads", heads, target.config.num_attention_heads)
    return GlideConfig(
        width=target.config.hidden_size,
        heads=heads,
        kv_heads=_size(config, "num_key_value_heads", name),
        head_dim=target.head_dim,
        inner=_size(config, "intermediate_size", name),
        eps=norm_eps(config, target, name),
    )


def _llama_config(config: dict[str, Any], target: Target, name: str) -> LlamaConfig:
    layers = _size(config, "num_hidden_layers", name)
    heads = _size(config, "num_attention_heads", name)
    kv_heads = _size(config, "num_key_value_heads", name)
    inner = _size(config, "intermediate_size", name)
    try:
        return small_config(target, layers, heads, kv_heads, inner)
    except Exception as error:  # transformers' own kinds, for sizes that do not go together
        why = " ".join(str(error).split())
        raise UserError(f"{name} has sizes that make no drafter: {why}") from None


def small_config(target: Target, layers: int, heads: int, kv_heads: int, inner: int) -> LlamaConfig:
    """A Llama around the target's embeddings and head."""
    theirs = target.config
    sdpa: dict[str, Any] = {"attn_implementation": "sdpa"}
    return LlamaConfig(
        vocab_size=theirs.vocab_size,
        hidden_size=theirs.hidden_size,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=target.head_dim,
        rms_norm_eps=theirs.rms_norm_eps,
        rope_parameters=dict(theirs.rope_parameters),
        max_position_embeddings=theirs.max_position_embeddings,
        tie_word_embeddings=False,
        bos_token_id=theirs.bos_token_id,
        eos_token_id=theirs.eos_token_id,
        pad_token_id=theirs.pad_token_id,
        **sdpa,
    )


def _size(config: dict[str, Any], key: str, name: str) -> int:
    value = whole(config, key, None, name)
    if value is None:
        raise UserError(f"{name} has a config.json without {key}: its shape is unknown.")
    return int(value)
