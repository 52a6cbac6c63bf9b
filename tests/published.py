"""Checkpoints as they are published, key for key, at small widths and with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PretrainedConfig

from moa_core.loading.formats import bare_net
from moa_core.loading.memory import config_of
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS
from tests.models import save_target, tiny_target, tiny_tokenizer

SHRINK = 32  # every width is that much smaller, every number of heads as published
SPECS = (LLAMA3, LLAMA3_MOA, LLAMA3_EAGLE)
NOT_SIZES = ("model_type", "architectures")
WIDTHS = ("hidden_size", "intermediate_size", "kv_hidden_size")  # and every ..._intermediate_size


def published_config(spec: str) -> dict[str, Any]:
    """The published config.json of an id of the preset, at small widths and for our tokenizer."""
    sizes = {"vocab_size": len(tiny_tokenizer())}
    if spec == LLAMA3:
        sizes |= {"num_hidden_layers": 3, "max_position_embeddings": 256}
    published = PRESETS["llama3-8b"].configs[spec]
    narrow = {
        key: value // SHRINK
        for key, value in published.items()
        if key in WIDTHS or key.endswith("_intermediate_size")
    }
    return {**published, **narrow, **sizes}


def random_net(published: dict[str, Any], target: PretrainedConfig) -> nn.Module:
    """A drafter's net of a published config with random weights."""
    torch.manual_seed(3)
    net = bare_net(published, target).to_empty(device="cpu")
    for name, weight in net.named_parameters():
        value = torch.randn(weight.shape) * weight.shape[-1] ** -0.5
        weight.data.copy_(torch.full_like(weight, "norm" in name) if weight.ndim == 1 else value)
    return net


def save_published(folder: Path, **sizes: Any) -> dict[str, Path]:
    """The three repositories of the preset as folders, by id: safetensors, and EAGLE's pickle.

    sizes  of the target, where they are to be others: the drafters stay as they are
    """
    configs = {spec: published_config(spec) for spec in SPECS}
    keys = {name: value for name, value in configs[LLAMA3].items() if name not in NOT_SIZES}
    target = tiny_target(**{**keys, **sizes}, eos_token_id=tiny_tokenizer().eos_token_id)
    target.tokenizer = tiny_tokenizer()
    places = {spec: folder / str(number) for number, spec in enumerate(SPECS)}
    save_target(places[LLAMA3], target)
    for spec in (LLAMA3_MOA, LLAMA3_EAGLE):
        places[spec].mkdir()
        (places[spec] / "config.json").write_text(json.dumps(configs[spec]))
        tensors: dict[str, Tensor] = random_net(
            configs[spec], config_of(configs[LLAMA3])
        ).state_dict()
        if spec == LLAMA3_MOA:
            save_file(tensors, places[spec] / "model.safetensors")
        else:
            tensors = {"embed_tokens.weight": target.embed.weight, **tensors}
            torch.save(tensors, places[spec] / "pytorch_model.bin")
    return places
