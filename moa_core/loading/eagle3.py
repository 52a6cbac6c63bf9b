"""EAGLE-3 heads in their published forms: SafeAILab's, and that of speculators and NVIDIA.

The forms differ in the names of the layer's tensors and in the places of sizes in the config.
Tensors or flags say which optional norms exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig

from moa_core.drafters.eagle3 import Eagle3Config, default_layers
from moa_core.errors import UserError
from moa_core.loading.fit import Tensors, check_same, layer_sizes
from moa_core.loading.untrusted import Count, Eps, Whole, section, value

LAYER = "midlayer"
OF_LAYER = ("model.layers.0.", "layers.0.")  # its names in other files
USUAL_THETA = 10_000.0  # SafeAILab's default for a config without rope_theta


def is_eagle3(tensors: Mapping[str, Any]) -> bool:
    return any(name.endswith(".hidden_norm.weight") for name in tensors) and "fc.weight" in tensors


def in_one_form(config: dict[str, Any], tensors: Tensors) -> tuple[dict[str, Any], Tensors]:
    """A head's config and tensors in SafeAILab's form, without unused tensors."""
    nested = section(config, "transformer_layer_config", "This head")
    renamed = {}
    for name, tensor in tensors.items():
        for prefix in OF_LAYER:
            name = f"{LAYER}.{name.removeprefix(prefix)}" if name.startswith(prefix) else name
        renamed[name.removeprefix("model.")] = tensor
    renamed.pop("t2d", None)  # d2t says the same
    if not value(config, "embed_requires_grad", bool, "This head", False):
        renamed.pop("embed_tokens.weight", None)  # a copy of the target's
    words = renamed.get("lm_head.weight")
    if words is not None and "d2t" not in renamed:  # the target's own words
        renamed["d2t"] = torch.zeros(len(words), dtype=torch.long)
    return {**config, **nested}, renamed


def eagle3_sizes(
    config: dict[str, Any], target: PretrainedConfig, tensors: Tensors, name: str
) -> Eagle3Config:
    """Sizes of an EAGLE-3 head. UserError for an unsupported form."""
    if "mask_hidden" in tensors:
        raise UserError(f"{name} drafts several tokens at once (P-EAGLE): this is not supported.")
    if any(part in key for key in tensors for part in ("layers.1.", "midlayers.")):
        raise UserError(f"{name} has more than one layer; EAGLE-3 heads have one.")
    width, joined = tensors["fc.weight"].shape
    heads = value(config, "num_attention_heads", Whole, name)
    layer = layer_sizes(tensors, LAYER, heads)
    features = value(config, "target_hidden_size", Whole, name, target.hidden_size)
    if joined % features:
        raise ValueError(f"fc.weight reads {joined} numbers, not a multiple of {features}")
    words, embeddings = tensors.get("lm_head.weight"), tensors.get("embed_tokens.weight")
    if embeddings is not None:
        check_same(name, "embeddings", len(embeddings), target.vocab_size)
    if words is not None:
        _check_words(tensors["d2t"], len(words), target.vocab_size, name)
    layers = _layers(config, target.num_hidden_layers, name)
    if len(layers) != joined // features:
        raise UserError(
            f"{name} reads {joined // features} of the target's layers, and its config names "
            f"{len(layers)}: {', '.join(map(str, layers))}."
        )
    return Eagle3Config(
        width=width,
        **asdict(layer),
        eps=value(config, "rms_norm_eps", Eps, name, target.rms_norm_eps),
        layers=layers,
        features=features,
        words=None if words is None else len(words),
        fc_bias="fc.bias" in tensors,
        qkv_bias=f"{LAYER}.self_attn.q_proj.bias" in tensors,
        head_norms=f"{LAYER}.self_attn.q_norm.weight" in tensors,
        norm_before="input_norm.weight" in tensors,
        norm_each="fc_norm.0.weight" in tensors,
        # By default, speculators' heads have it and SafeAILab's do not.
        norm_residual=value(
            config, "norm_before_residual", bool, name, "speculators_model_type" in config
        ),
        norm_output=value(config, "norm_output", bool, name, False),
        embeddings=None if embeddings is None else len(embeddings),
    )


def _layers(config: dict[str, Any], count: int, name: str) -> tuple[int, ...]:
    """The layers whose inputs a head reads.

    Other forms name the layers whose outputs those are, which is one less. Their first is 1, which
    tells the forms apart.
    """
    if own := value(section(config, "drafter", name), "layers", list[Count], name, None):
        return tuple(own)
    key = "eagle_aux_hidden_state_layer_ids"
    named = value(config, key, list[Count], name, None)
    named = named or value(section(config, "eagle_config", name), key, list[Count], name, None)
    if not named:
        return default_layers(count)
    return tuple(layer + 1 for layer in named) if named[0] == 1 else tuple(named)


def _check_words(offsets: Tensor, count: int, vocabulary: int, name: str) -> None:
    if offsets.shape != (count,) or offsets.is_floating_point():
        raise ValueError(f"d2t has the shape {tuple(offsets.shape)}, not ({count},)")
    ids = offsets + torch.arange(count, device=offsets.device)  # a net is built on "meta"
    if not (bool((ids >= 0).all()) and bool((ids < vocabulary).all())):
        raise UserError(f"{name} drafts tokens that this target's vocabulary does not have.")


def rope_of(config: dict[str, Any], name: str) -> dict[str, Any]:
    """A head's `rope_parameters`, which may differ from its target's."""
    theta = value(config, "rope_theta", float, name, USUAL_THETA)
    plain = {"rope_type": "default", "rope_theta": theta}
    return section(config, "rope_parameters", name) or plain


def eagle3_keys(sizes: Eagle3Config, rope: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes in the keys of SafeAILab's format, with speculators' keys for the rest."""
    flags = {"norm_before_residual": sizes.norm_residual, "norm_output": sizes.norm_output}
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "intermediate_size": sizes.inner,
        "rope_parameters": dict(rope),
        **({"draft_vocab_size": sizes.words} if sizes.words else {}),
        **{key: True for key, on in flags.items() if on},
    }
