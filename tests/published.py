"""Checkpoints as they are published, key for key, at small widths and with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from moa_core.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS
from moa_core.shapes import bare_net, config_of
from tests.models import save_target, tiny_target, tiny_tokenizer

# Every width a 32nd of the published one, every number of heads as published.
SMALL = {
    LLAMA3: {
        "hidden_size": 128, "intermediate_size": 448, "num_hidden_layers": 3,
        "max_position_embeddings": 256,
    },
    LLAMA3_MOA: {
        "hidden_size": 128, "kv_hidden_size": 64,
        "self_attention_intermediate_size": 192, "cross_attention_intermediate_size": 192,
        "layer_self_attention_intermediate_size": 96,
    },
    LLAMA3_EAGLE: {"hidden_size": 128, "intermediate_size": 448, "max_position_embeddings": 256},
}  # fmt: skip

NOT_SIZES = ("model_type", "architectures")


def published_config(spec: str, **sizes: Any) -> dict[str, Any]:
    """The published config.json of an id of the preset, with other sizes."""
    known = {**PRESETS["llama3-8b"].configs[spec], **SMALL[spec]}
    return {**known, "vocab_size": len(tiny_tokenizer()), **sizes}


def random_net(config: dict[str, Any], target: dict[str, Any], whisper: float = 0.01) -> nn.Module:
    """A drafter's net whose layers pass on what they are given, so that it is often right."""
    torch.manual_seed(3)
    net = bare_net(config, config_of(target)).to_empty(device="cpu")
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.1 * (whisper if "o_proj" in name or "down" in name else 1))
            else:
                weight.fill_(1.0) if "norm" in name else weight.zero_()
        if "fc.weight" in net.state_dict():
            eye = torch.eye(config["hidden_size"])
            net.fc.weight.copy_(torch.cat([eye, 0.3 * eye], 1))
    return net


def save_published(folder: Path, **sizes: Any) -> dict[str, Path]:
    """The three repositories of the preset as folders, by id: safetensors, and EAGLE's pickle.

    sizes  of the target, where they are to be others: the drafters stay as they are
    """
    configs = {spec: published_config(spec) for spec in SMALL}
    keys = {name: value for name, value in configs[LLAMA3].items() if name not in NOT_SIZES}
    target = tiny_target(**{**keys, **sizes}, eos_token_id=tiny_tokenizer().eos_token_id)
    target.tokenizer = tiny_tokenizer()
    places = {spec: folder / str(number) for number, spec in enumerate(SMALL)}
    save_target(places[LLAMA3], target)
    for spec in (LLAMA3_MOA, LLAMA3_EAGLE):
        places[spec].mkdir()
        (places[spec] / "config.json").write_text(json.dumps(configs[spec]))
        tensors: dict[str, Tensor] = random_net(configs[spec], configs[LLAMA3]).state_dict()
        if spec == LLAMA3_MOA:
            save_file(tensors, places[spec] / "model.safetensors")
        else:
            tensors = {"embed_tokens.weight": target.embed.weight, **tensors}
            torch.save(tensors, places[spec] / "pytorch_model.bin")
    return places
