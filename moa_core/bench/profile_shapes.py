"""Targets and drafters of a shape with random weights: for times, where the real ones are not here.

What they write means nothing, and hardly a draft of theirs is accepted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, PretrainedConfig

from moa_core.checkpoints import (
    bundled_drafters,
    bundled_target,
    locate,
    pick_device,
    pick_dtype,
    precision_for,
)
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleConfig, EagleDrafter, EagleNet
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.errors import UserError
from moa_core.presets import PRESETS
from moa_core.target import Target
from moa_core.train.fresh import fresh
from moa_core.tree import TreeSettings

# Published sizes; the MoA drafter's are those of arXiv 2410.03804, section 4.
SHAPES: dict[str, dict[str, Any]] = {
    "llama3-8b": {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "tie_word_embeddings": False,
    }
}
_MOA_8B = Sizes(heads=32, kv_heads=4, head_dim=128, inner=6144)
_LSA_8B = Sizes(heads=32, kv_heads=8, head_dim=64, inner=3072)
_EAGLE_8B = EagleConfig(heads=32, kv_heads=8, head_dim=128, inner=14336, eps=1e-5)


def random_target(
    shape: str, layers: int | None, context: int, dtype: str = "auto", device: str = "auto"
) -> Target:
    """A target without training. UserError for a shape that is neither known nor a model's.

    shape    one of SHAPES, or a bundled name or folder, whose config is taken
    layers   how many, if not the shape's own number
    context  positions that it must have at least
    """
    config = _config(shape)
    if layers is not None:
        config.num_hidden_layers = layers
        config.layer_types = None
    config.max_position_embeddings = max(context, config.max_position_embeddings)
    where = pick_device(device)
    torch.manual_seed(0)
    with torch.device(where):
        model = AutoModelForCausalLM.from_config(config, dtype=pick_dtype(dtype, where))
    target = Target(model.requires_grad_(False))
    count = len(target.layers)
    target.name = f"{shape} with {count} layer{'s' * (count > 1)} and random weights"
    return target


def random_drafter(method: str, target: Target, shape: str) -> Drafter:
    """A drafter for such a target: of the published size for a published shape, else of ours."""
    if method in WITHOUT_WEIGHTS:
        return WITHOUT_WEIGHTS[method]()
    published = _published(method, target) if shape in SHAPES else None
    drafter = published or fresh(method, target, 0)
    net = getattr(drafter, "net", None)
    if net is not None:
        net.to(target.device, target.dtype).eval().requires_grad_(False)
        drafter.precision = precision_for(target, True)
    return drafter


def usual_tree(method: str, shape: str) -> TreeSettings:
    """The tree a method is used with: the authors' at a published shape, else the bundled one's."""
    if shape in SHAPES:
        return TreeSettings(*PRESETS[shape].tree)
    return next((info.tree for info in bundled_drafters() if info.name == method), TreeSettings())


def _published(method: str, target: Target) -> Drafter | None:
    """With the sizes of the drafters that were published for Llama-3-8B."""
    width, eps = target.config.hidden_size, target.config.rms_norm_eps
    kind, _, tli = method.partition("-n")
    if kind == "moa" and tli.isdigit():
        config = MoAConfig(width, target.kv_width, _MOA_8B, _MOA_8B, _LSA_8B, eps)
        return MoADrafter(MoANet(config), target, int(tli), method)
    if method == "eagle2":
        return EagleDrafter(EagleNet(_EAGLE_8B, width), target)
    return None


def _config(shape: str) -> PretrainedConfig:
    if shape in SHAPES:
        return LlamaConfig(**SHAPES[shape])
    place = locate(bundled_target()) if shape == "bundle" else Path(shape).expanduser()
    if not isinstance(place, Path) or not place.is_dir():
        known = ", ".join(["bundle", *SHAPES])
        raise UserError(f"There is no shape {shape!r}: choose from {known}, or name a folder.")
    config: PretrainedConfig = AutoConfig.from_pretrained(place, trust_remote_code=False)
    return config
