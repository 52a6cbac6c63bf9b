"""Checkpoints as they are published, key for key, at small widths and with random weights."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from moa_core.drafters.eagle import EagleConfig, EagleNet
from moa_core.drafters.moa import MoAConfig, MoANet, Sizes
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS
from tests.models import save_target, tiny_target, tiny_tokenizer

SHRINK = 32  # every width is that much smaller, every number of heads as published
SPECS = (LLAMA3, LLAMA3_MOA, LLAMA3_EAGLE)
WIDTHS = ("hidden_size", "intermediate_size", "kv_hidden_size")  # and every ..._intermediate_size


MOA = {
    "model_type": "moa_spec", "architectures": ["MOASpecModel"], "hidden_size": 4096,
    "kv_hidden_size": 2048, "num_attention_heads": 32, "self_attention_num_key_value_heads": 4,
    "self_attention_intermediate_size": 6144, "cross_attention_num_key_value_heads": 4,
    "cross_attention_intermediate_size": 6144, "layer_self_attention_num_key_value_heads": 8,
    "layer_self_attention_intermediate_size": 3072, "disable_LSA": False, "vocab_size": 128256,
    "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
}  # fmt: skip
PUBLISHED = {
    LLAMA3: dict(PRESETS["llama3-8b"].config),
    LLAMA3_MOA: MOA,
    LLAMA3_EAGLE: {**PRESETS["llama3-8b"].config, "num_hidden_layers": 1, "bias": True},
}


def published_config(spec: str) -> dict[str, Any]:
    """The published config.json of an id of the preset, at small widths and for our tokenizer."""
    sizes = {"vocab_size": len(tiny_tokenizer())}
    if spec == LLAMA3:
        sizes |= {"num_hidden_layers": 3, "max_position_embeddings": 256}
    narrow = {
        key: value // SHRINK
        for key, value in PUBLISHED[spec].items()
        if key in WIDTHS or key.endswith("_intermediate_size")
    }
    return {**PUBLISHED[spec], **narrow, **sizes}


def published_nets(shrink: int = SHRINK) -> dict[str, nn.Module]:
    """The nets of the published drafters, with numbers that take no memory."""
    width, kv_width, head = 4096 // shrink, 2048 // shrink, 128 // shrink
    own, lsa = Sizes(32, 4, head, 6144 // shrink), Sizes(32, 8, kv_width // 32, 3072 // shrink)
    with torch.device("meta"):
        return {
            LLAMA3_MOA: MoANet(MoAConfig(width, kv_width, own, own, lsa, 1e-5)),
            LLAMA3_EAGLE: EagleNet(EagleConfig(width, 32, 8, head, 14336 // shrink, 1e-5)),
        }


def random_numbers(net: nn.Module) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    net = net.to_empty(device="cpu")
    for name, weight in net.named_parameters():
        value = torch.randn(weight.shape) * weight.shape[-1] ** -0.5
        weight.data.copy_(torch.full_like(weight, "norm" in name) if weight.ndim == 1 else value)
    return net.state_dict()


def save_published(folder: Path, **sizes: Any) -> dict[str, Path]:
    """The preset's three repositories as folders, by id. sizes: of the target alone."""
    config = published_config(LLAMA3) | sizes | {"eos_token_id": tiny_tokenizer().eos_token_id}
    target = tiny_target(family=config.pop("model_type"), **config)
    target.tokenizer = tiny_tokenizer()
    places = {spec: folder / str(number) for number, spec in enumerate(SPECS)}
    save_target(places[LLAMA3], target)
    for spec in (LLAMA3_MOA, LLAMA3_EAGLE):
        places[spec].mkdir()
        (places[spec] / "config.json").write_text(json.dumps(published_config(spec)))
        tensors = random_numbers(published_nets()[spec])
        if spec == LLAMA3_MOA:
            save_file(tensors, places[spec] / "model.safetensors")
        else:
            tensors = {"embed_tokens.weight": target.embed.weight, **tensors}
            torch.save(tensors, places[spec] / "pytorch_model.bin")
    return places
