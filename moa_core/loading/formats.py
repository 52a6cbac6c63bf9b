"""Sizes of drafters, from the configs and tensors of their files and back into config keys.

The keys follow the authors' published formats (MoA's, and SafeAILab's for EAGLE). Most sizes
come from the tensors, because unconverted configs lack them. Our own keys are under "drafter".

EAGLE-3 heads have two published forms, SafeAILab's and that of speculators and NVIDIA. They differ
in the names of the layer's tensors and in the places of sizes in the config. Tensors or flags say
which optional norms exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, PretrainedConfig

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleConfig, EagleDrafter
from moa_core.drafters.eagle3 import Eagle3Config, Eagle3Drafter, default_layers
from moa_core.drafters.independent import IndependentDrafter
from moa_core.drafters.medusa import MedusaConfig, MedusaDrafter
from moa_core.drafters.moa import MoAConfig, MoADrafter
from moa_core.drafters.tandem import TandemConfig, TandemDrafter
from moa_core.errors import UserError
from moa_core.loading.fit import Tensors, check_same, check_shape, layer_sizes
from moa_core.loading.untrusted import Count, Eps, Whole, section, value
from moa_core.model.target import Target, head_size, kv_heads

SAFEAI = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1}
MIDLAYER = "midlayer"  # the layer of an EAGLE-3 head
OF_MIDLAYER = ("model.layers.0.", "layers.0.")  # its names in other files
USUAL_THETA = 10_000.0  # SafeAILab's default for a config without rope_theta
LAYER = ("num_attention_heads", "num_key_value_heads", "intermediate_size")


def moa_sizes(
    config: dict[str, Any], target: PretrainedConfig, tensors: Tensors, name: str
) -> MoAConfig:
    """Sizes of a MoA drafter. Its files follow the target's hidden size and K and V."""
    ours, width = section(config, "drafter", name), target.hidden_size
    kv_width = 2 * kv_heads(target) * head_size(target)
    check_shape(tensors, "Ekv2E.weight", (width, kv_width))  # the clearest sign of another target
    sa, ca, lsa = "self_attention", "cross_attention", "layer_self_attention"
    heads = value(config, "num_attention_heads", Whole, name, target.num_attention_heads)
    lsa_heads = value(ours, "lsa_heads", Whole, name, heads)
    # SA follows the target's layers: Llama's option has biases on all four projections.
    biased = bool(getattr(target, "attention_bias", False))
    return MoAConfig(
        width=width,
        kv_width=kv_width,
        sa=layer_sizes(tensors, sa, heads),
        ca=layer_sizes(tensors, ca, heads),
        lsa=None if config.get("disable_LSA") else layer_sizes(tensors, lsa, lsa_heads),
        eps=value(config, "rms_norm_eps", Eps, name, target.rms_norm_eps),
        qkv_bias=biased or _any_bias(tensors, f"{sa}.self_attn", "qkv"),
        o_bias=biased or _any_bias(tensors, f"{sa}.self_attn", "o"),
        mlp_bias=_any_bias(tensors, f"{sa}.mlp", ("gate", "up", "down")),
        pool=ours.get("lsa_pool", "mean"),  # our own option; the authors' files use the mean
    )


def eagle_sizes(
    config: dict[str, Any], target: PretrainedConfig, tensors: Tensors, name: str
) -> EagleConfig:
    heads = value(config, "num_attention_heads", Whole, name, target.num_attention_heads)
    return EagleConfig(
        **asdict(layer_sizes(tensors, "layers.0", heads)),
        eps=value(config, "rms_norm_eps", Eps, name, target.rms_norm_eps),
        fc_bias="fc.bias" in tensors or config.get("bias") is True,
        qkv_bias=_any_bias(tensors, "layers.0.self_attn", "qkv"),
        o_bias=_any_bias(tensors, "layers.0.self_attn", "o"),
    )


def tandem_sizes(
    config: dict[str, Any], target: PretrainedConfig, tensors: Tensors, name: str
) -> TandemConfig:
    """Sizes of a Tandem drafter. Its heads are the target's."""
    heads, groups, inner = (value(config, key, Whole, name) for key in LAYER)
    check_same(name, "number of heads", heads, target.num_attention_heads)
    eps = value(config, "rms_norm_eps", Eps, name, target.rms_norm_eps)
    layers = value(config, "num_hidden_layers", Whole, name)
    _check_count(layers, tensors, name)
    width, size = target.hidden_size, head_size(target)
    return TandemConfig(width, heads, groups, size, inner, eps, layers)


def medusa_sizes(
    config: dict[str, Any], target: PretrainedConfig, tensors: Tensors, name: str
) -> MedusaConfig:
    sizes = MedusaConfig(*(value(config, key, Whole, name) for key in ("heads", "blocks")))
    _check_count(2 * sizes.heads * sizes.blocks, tensors, name)
    return sizes


def independent_sizes(
    config: dict[str, Any], tensors: Tensors, target: Target, name: str
) -> LlamaConfig:
    """Sizes of a small Llama that borrows the target's embeddings and head."""
    layers = value(config, "num_hidden_layers", Whole, name)
    _check_count(layers, tensors, name)
    return small_config(target, layers, *(value(config, key, Whole, name) for key in LAYER))


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


def _any_bias(tensors: Tensors, prefix: str, parts: Iterable[str]) -> bool:
    return any(f"{prefix}.{part}_proj.bias" in tensors for part in parts)


def _check_count(count: int, tensors: Tensors, name: str) -> None:
    """Check the count before modules are built: each has at least one tensor in the file."""
    if count > len(tensors):
        raise UserError(f"{name} has {len(tensors)} tensors, too few for its config.")


def config_keys(drafter: Drafter) -> tuple[dict[str, Any], dict[str, Any]]:
    """A drafter's sizes in the keys of its authors, and our own keys."""
    match drafter:
        case MoADrafter():
            sizes = drafter.net.config
            ours = {"lsa_heads": sizes.lsa and sizes.lsa.heads, "lsa_pool": sizes.pool}
            return _moa_keys(sizes), {"method": "moa", "tli": drafter.tli, **ours}
        case EagleDrafter():
            eagle = drafter.net.config
            layer = dict(zip(LAYER, (eagle.heads, eagle.kv_heads, eagle.inner), strict=True))
            return {**SAFEAI, **layer, "bias": eagle.fc_bias}, {"method": "eagle2"}
        case Eagle3Drafter():
            read = drafter.net.config
            keys = eagle3_keys(read, drafter.rope.parameters)
            return keys, {"method": "eagle3", "layers": list(read.layers)}
        case MedusaDrafter():
            return asdict(drafter.net.config), {"method": "medusa"}
        case TandemDrafter():
            tandem = drafter.net.config
            layer = dict(zip(LAYER, (tandem.heads, tandem.kv_heads, tandem.inner), strict=True))
            return {**layer, "num_hidden_layers": tandem.count}, {"method": "tandem"}
    assert isinstance(drafter, IndependentDrafter)
    small = {key: getattr(drafter.small.config, key) for key in ("num_hidden_layers", *LAYER)}
    return {**small, "embeddings": "the target's"}, {"method": "independent"}


def _moa_keys(config: MoAConfig) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "architectures": ["MOASpecModel"],
        "model_type": "moa_spec",
        "kv_hidden_size": config.kv_width,
        "num_attention_heads": config.ca.heads,
        "head_dim": config.ca.head_dim,
        "disable_LSA": config.lsa is None,
    }
    for prefix, sizes in (
        ("self_attention", config.sa),
        ("cross_attention", config.ca),
        ("layer_self_attention", config.lsa),
    ):
        if sizes is not None:
            keys[f"{prefix}_num_key_value_heads"] = sizes.kv_heads
            keys[f"{prefix}_intermediate_size"] = sizes.inner
    return keys


def is_eagle3(tensors: Mapping[str, Any]) -> bool:
    return any(name.endswith(".hidden_norm.weight") for name in tensors) and "fc.weight" in tensors


def in_one_form(config: dict[str, Any], tensors: Tensors) -> tuple[dict[str, Any], Tensors]:
    """A head's config and tensors in SafeAILab's form, without unused tensors."""
    nested = section(config, "transformer_layer_config", "This head")
    renamed = {}
    for name, tensor in tensors.items():
        for prefix in OF_MIDLAYER:
            name = f"{MIDLAYER}.{name.removeprefix(prefix)}" if name.startswith(prefix) else name
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
    layer = layer_sizes(tensors, MIDLAYER, heads)
    features = value(config, "target_hidden_size", Whole, name, target.hidden_size)
    if joined % features:
        raise ValueError(f"fc.weight reads {joined} numbers, not a multiple of {features}")
    words, embeddings = tensors.get("lm_head.weight"), tensors.get("embed_tokens.weight")
    if embeddings is not None:
        check_same(name, "embeddings", len(embeddings), target.vocab_size)
    if words is not None and tensors["d2t"].shape != (len(words),):
        found = tuple(tensors["d2t"].shape)
        raise ValueError(f"d2t has the shape {found}, not ({len(words)},)")
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
        qkv_bias=f"{MIDLAYER}.self_attn.q_proj.bias" in tensors,
        head_norms=f"{MIDLAYER}.self_attn.q_norm.weight" in tensors,
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


def vocabulary_of(tensors: Tensors, count: int, name: str) -> Tensor | None:
    """The ids [D] of the tokens that a file's drafter drafts; None: all of the target's `count`.

    As in EAGLE-3's files, `d2t` holds each one's offset from its place.
    """
    if (offsets := tensors.get("d2t")) is None:
        return None
    if offsets.ndim != 1 or offsets.is_floating_point():
        raise UserError(f"{name} does not fit this target: d2t is not a list of whole numbers.")
    ids = offsets.long() + torch.arange(len(offsets))
    if not (bool((ids >= 0).all()) and bool((ids < count).all())):
        raise UserError(f"{name} drafts tokens that this target's vocabulary does not have.")
    return ids


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
        **{key: True for key, on in flags.items() if on},
    }
