"""Models of a given shape without weights: for sizes, and to be filled with random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from moa_core.drafters.eagle import EagleConfig, EagleNet
from moa_core.drafters.moa import MoAConfig, MoANet, Sizes
from moa_core.errors import UserError, first_line


def config_of(shape: Mapping[str, Any] | Path) -> PretrainedConfig:
    """A target's config, from a folder or from the keys of a config.json."""
    try:
        if isinstance(shape, Path):
            config: PretrainedConfig = AutoConfig.from_pretrained(shape, trust_remote_code=False)
            return config
        keys = dict(shape)
        return AutoConfig.for_model(keys.pop("model_type"), **keys)
    except Exception as error:  # transformers raises many kinds; all mean: not usable
        where = shape if isinstance(shape, Path) else "This config"
        raise UserError(f"{where} has no config that can be used: {first_line(error)}") from error


def bare_target(config: PretrainedConfig) -> PreTrainedModel:
    """The target's modules with parameters that take no memory."""
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def head_size(config: PretrainedConfig) -> int:
    """d: the config's own where it has one, else E / H."""
    size: int | None = getattr(config, "head_dim", None)
    return size or int(config.hidden_size // config.num_attention_heads)


def kv_heads(config: PretrainedConfig) -> int:
    """G: the heads whose K and V are cached."""
    heads: int | None = getattr(config, "num_key_value_heads", None)
    return heads or int(config.num_attention_heads)


def bare_net(published: Mapping[str, Any], target: PretrainedConfig) -> nn.Module:
    """A drafter's net by its published config, with parameters that take no memory."""
    with torch.device("meta"):
        if published.get("model_type") == "moa_spec":
            return MoANet(_moa(published, target))
        return EagleNet(_eagle(published), target.hidden_size)


def _moa(keys: Mapping[str, Any], target: PretrainedConfig) -> MoAConfig:
    heads, width = keys["num_attention_heads"], 2 * kv_heads(target) * head_size(target)

    def sizes(part: str, over: int) -> Sizes:
        groups, inner = (
            keys[f"{part}_{name}"] for name in ("num_key_value_heads", "intermediate_size")
        )
        return Sizes(heads, groups, over // heads, inner)

    return MoAConfig(
        width=target.hidden_size,
        kv_width=width,
        sa=sizes("self_attention", target.hidden_size),
        ca=sizes("cross_attention", target.hidden_size),
        lsa=None if keys.get("disable_LSA") else sizes("layer_self_attention", width),
        eps=keys["rms_norm_eps"],
    )


def _eagle(keys: Mapping[str, Any]) -> EagleConfig:
    heads = keys["num_attention_heads"]
    return EagleConfig(
        heads=heads,
        kv_heads=keys["num_key_value_heads"],
        head_dim=keys["hidden_size"] // heads,
        inner=keys["intermediate_size"],
        eps=keys["rms_norm_eps"],
        fc_bias=keys.get("bias", True),
    )
