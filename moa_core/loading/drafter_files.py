"""A drafter's folder, `config.json` and `model.safetensors`: read for a target, and written."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter, EagleNet
from moa_core.drafters.glide import GlideDrafter, GlideNet
from moa_core.drafters.independent import IndependentDrafter, borrowing, own_parts
from moa_core.drafters.medusa import MedusaDrafter, MedusaNet
from moa_core.drafters.moa import MoADrafter, MoANet
from moa_core.errors import UserError, first_line
from moa_core.loading.catalog import tree_settings
from moa_core.loading.fit import about_target, check_fit, check_same, check_tensor, other_weights
from moa_core.loading.formats import SIZES, Tensors, config_keys, independent_sizes
from moa_core.loading.untrusted import careful, integer, section
from moa_core.model.target import Target, moved

log = logging.getLogger(__name__)
OF_OUR_OWN = ("medusa", "glide", "independent")  # methods whose files always have our keys


def build_drafter(
    config: dict[str, Any], tensors: Tensors, target: Target, tli: int | None, name: str
) -> Drafter:
    """A drafter for this target from its files. UserError, with the number, if they do not fit.

    A drafter that was trained on other weights of the same shape says so, in `note` and the log.

    tli  layers to reuse; None: what the config says, else 0
    """
    check_fit(config, target, name)
    ours = section(config, "drafter", name)
    drafter = build(_method(ours, tensors, name), config, tensors, target, tli, name)
    drafter.tree = tree_settings(section(ours, "tree", name))
    drafter.note = other_weights(config, target, name)
    if drafter.note:
        log.warning(drafter.note)
    return drafter


def _method(ours: dict[str, Any], tensors: Tensors, name: str) -> str:
    if ours.get("method") in OF_OUR_OWN:
        return str(ours["method"])
    if "cross_attention.self_attn.q_proj.weight" in tensors:
        return "moa"
    if {"fc.weight", "layers.0.self_attn.q_proj.weight"} <= tensors.keys():
        return "eagle2"
    raise UserError(f"{name} holds neither a MoA drafter nor any other drafter known here.")


def build(
    method: str,
    config: dict[str, Any],
    tensors: Tensors,
    target: Target,
    tli: int | None,
    name: str,
) -> Drafter:
    """A drafter of a method from its files."""
    if tli and method != "moa":
        raise UserError(f"{name} is no MoA drafter: TLI is a part of MoA and does not apply.")
    width = target.config.hidden_size
    if method == "independent":
        return _independent(config, tensors, target, name)
    sizes: Any = SIZES[method](config, target.config, tensors, name)
    match method:
        case "moa":
            net = filled(lambda: MoANet(sizes), tensors, target, name)
            return MoADrafter(net, target, _tli(config, tli, name), name)
        case "eagle2":
            net = filled(lambda: EagleNet(sizes, width), tensors, target, name)
            return EagleDrafter(net, target, name)
        case "medusa":
            net = filled(lambda: MedusaNet(sizes, width), tensors, target, name)
            return MedusaDrafter(net, target, name)
    net = filled(lambda: GlideNet(sizes), tensors, target, name)
    return GlideDrafter(net, target, name)


def _independent(
    config: dict[str, Any], tensors: Tensors, target: Target, name: str
) -> IndependentDrafter:
    sizes = independent_sizes(config, tensors, target, name)
    net = filled(lambda: own_parts(LlamaForCausalLM(sizes)), tensors, target, name)
    drafter = IndependentDrafter(borrowing(sizes, target), target, name)
    drafter.net.load_state_dict(net.state_dict())
    drafter.net.eval().requires_grad_(False)
    return drafter


def _tli(config: dict[str, Any], tli: int | None, name: str) -> int:
    stored = integer(section(config, "drafter", name), "tli", None, name, 0)
    if tli is not None and stored is not None and tli != stored:
        raise UserError(
            f"{name} was trained for TLI N={stored} and cannot draft with N={tli}: each N needs a "
            "drafter of its own."
        )
    return tli if tli is not None else (stored or 0)


def whole_model(folder: Path, target: Target, name: str) -> IndependentDrafter:
    """An independent drafter from a complete model folder, its own embeddings and head included."""
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=target.dtype, **careful())
    except Exception as error:  # transformers raises many kinds; all mean: not loadable
        raise UserError(f"The drafter {name} cannot be loaded: {first_line(error)}") from error
    if model.config.vocab_size < target.config.vocab_size:
        check_same(name, "vocabulary", model.config.vocab_size, target.config.vocab_size)
    small = Target(moved(model, target.device).requires_grad_(False), name=name)
    return IndependentDrafter(small, target, name)


def filled(make: Callable[[], nn.Module], tensors: Tensors, target: Target, name: str) -> Any:
    """The net that `make` builds, with its weights, in the target's dtype and on its device.

    It takes memory only once its shapes are known to be the file's. UserError, with the first
    mismatch, if they are not.
    """
    try:
        with torch.device("meta"):
            net = make()
    except UserError:
        raise
    except Exception as error:  # torch's and transformers' own, for sizes that do not go together
        raise UserError(f"{name} has sizes that make no drafter: {first_line(error)}.") from None
    wanted = net.state_dict()
    for key, value in wanted.items():
        check_tensor(tensors, key, value.shape, name)
    net.to_empty(device="cpu")
    # A file may hold more: EAGLE heads bring a copy of the target's embeddings.
    net.load_state_dict({key: tensors[key] for key in wanted})
    return net.to(target.device, target.dtype).eval().requires_grad_(False)


def save_drafter(
    folder: Path,
    drafter: Drafter,
    target: Target,
    more: dict[str, Any],
    dtype: torch.dtype,
    tensors: Tensors | None = None,
) -> None:
    """Write a drafter's folder; `more` are our own keys (training, metrics, tree, licence).

    tensors  its weights, where its net does not hold them whole
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(drafter_config(drafter, target, more), indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    found = drafter.net.state_dict() if tensors is None else tensors
    written = {key: value.to(dtype).contiguous() for key, value in found.items()}
    save_file(written, folder / "model.safetensors", metadata={"format": "pt"})


def drafter_config(drafter: Drafter, target: Target, more: dict[str, Any]) -> dict[str, Any]:
    """config.json of a drafter: the authors' keys, and ours under "drafter"."""
    config = target.config
    base = {
        "hidden_size": config.hidden_size,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_parameters["rope_theta"],
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
        "hidden_act": "silu",
    }
    keys, ours = config_keys(drafter)
    return {**base, **keys, "drafter": {**ours, "target": about_target(target), **more}}
