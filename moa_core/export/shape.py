"""A target without its weights: an export needs its config, its tokenizer, and rarely embeddings.

So a drafter of an 8B target is exported where that target would not fit, or was never downloaded.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from moa_core.errors import UserError, first_line
from moa_core.export.generate import fetched
from moa_core.loading.checkpoints import bundled_target, locate
from moa_core.loading.formats import read_config
from moa_core.loading.shapes import config_of
from moa_core.model.target import Target

CONFIGS = ["*.json", "*.jinja", "tokenizer*"]
INDEX = "model.safetensors.index.json"


def target_shape_of(spec: str | None) -> Target:
    """A target whose parameters take no memory: a bundled name, a folder or a Hub id.

    UserError if it cannot be had, or is no target.
    """
    place = locate(spec or bundled_target())
    folder = place if isinstance(place, Path) else fetched(place, {}, CONFIGS)
    read_config(folder)  # a clear word about what is missing, before transformers' own
    try:
        config = config_of(folder)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        told = any(folder.glob("tokenizer*"))
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False) if told else None
    except Exception as error:  # transformers raises many kinds; all mean: not usable
        raise UserError(
            f"The target {spec or place} cannot be read: {first_line(error)}"
        ) from error
    name = place.resolve().name if isinstance(place, Path) else place.partition("@")[0]
    return Target(model, tokenizer, name)


def embeddings_of(spec: str | None) -> Tensor:
    """[V, E] a target's embeddings, the one tensor that is read of its weights."""
    place = locate(spec or bundled_target())
    known = [INDEX, "model.safetensors"]
    folder = place if isinstance(place, Path) else fetched(place, {}, known)
    files = ["model.safetensors"]
    if (folder / INDEX).is_file():
        shards = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        files = [shard for name, shard in shards.items() if name.endswith("embed_tokens.weight")]
    if not isinstance(place, Path):
        folder = fetched(place, {}, files)
    for name in files:
        if (found := _read(folder / name)) is not None:
            return found
    raise UserError(f"The embeddings of {spec or place} cannot be found in its safetensors files.")


def _read(path: Path) -> Tensor | None:
    try:
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.endswith("embed_tokens.weight")]  # noqa: SIM118
            return file.get_tensor(names[0]) if names else None
    except (OSError, SafetensorError):
        return None
