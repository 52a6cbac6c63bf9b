"""A drafter's folder, with `config.json` and `model.safetensors`: reading and writing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter, EagleNet
from moa_core.drafters.eagle3 import Eagle3Drafter, Eagle3Net
from moa_core.drafters.independent import IndependentDrafter, borrowing, own_parts
from moa_core.drafters.medusa import MedusaDrafter, MedusaNet
from moa_core.drafters.moa import MoADrafter, MoANet
from moa_core.drafters.tandem import TandemDrafter, TandemNet
from moa_core.errors import UserError, saying
from moa_core.loading import fit, formats
from moa_core.loading.catalog import tree_settings
from moa_core.loading.formats import eagle3_sizes, in_one_form, is_eagle3, rope_of
from moa_core.loading.untrusted import Count, careful, section, value
from moa_core.model.target import Target, moved

log = logging.getLogger(__name__)
SCALE = ".scale"  # ends the name of the scales of a matrix in eight bits
OF_OUR_OWN = ("medusa", "tandem", "independent")  # methods whose files always have our keys


def build_drafter(
    config: dict[str, Any], tensors: fit.Tensors, target: Target, tli: int | None, name: str
) -> Drafter:
    """A drafter for this target from its files. UserError, with the number, if they do not fit.

    If it was trained on other weights of the same shape, `note` and the log say so.

    tli  layers to reuse; None: the config's value, else 0
    """
    tensors = unpacked(tensors, name)
    if is_eagle3(tensors):
        config, tensors = in_one_form(config, tensors)
    fit.check_fit(config, target, name)
    ours = section(config, "drafter", name)
    drafter = build(_method(ours, tensors, name), config, tensors, target, tli, name)
    words = formats.vocabulary_of(tensors, target.config.vocab_size, name)
    drafter.vocabulary = None if words is None else words.to(target.device)
    drafter.tree = tree_settings(section(ours, "tree", name), name)
    if note := fit.other_weights(config, target, name):
        log.warning(note)
        drafter.note = note
    return drafter


def _method(ours: dict[str, Any], tensors: fit.Tensors, name: str) -> str:
    if ours.get("method") in OF_OUR_OWN:
        return str(ours["method"])
    if "cross_attention.self_attn.q_proj.weight" in tensors:
        return "moa"
    if is_eagle3(tensors):
        return "eagle3"
    if {"fc.weight", "layers.0.self_attn.q_proj.weight"} <= tensors.keys():
        return "eagle2"
    raise UserError(f"{name} holds neither a MoA drafter nor any other drafter known here.")


def build(
    method: str, config: dict[str, Any], tensors: fit.Tensors, target: Target, tli: int | None,
    name: str,
) -> Drafter:  # fmt: skip
    if tli and method != "moa":
        raise UserError(f"{name} is not a MoA drafter, so TLI does not apply.")
    if method == "independent":
        return _independent(config, tensors, target, name)
    width = target.config.hidden_size

    def net(kind: Callable[..., nn.Module], sizes: Callable[..., Any], *more: int) -> Any:
        of_file = partial(sizes, config, target.config, tensors, name)
        made = filled(lambda: kind(of_file(), *more), tensors, name)
        return made.to(target.device, target.dtype).eval().requires_grad_(False)

    match method:
        case "moa":
            return MoADrafter(net(MoANet, formats.moa_sizes), target, _tli(config, tli, name), name)
        case "eagle2":
            return EagleDrafter(net(EagleNet, formats.eagle_sizes, width), target, name)
        case "eagle3":
            return Eagle3Drafter(net(Eagle3Net, eagle3_sizes), target, name, rope_of(config, name))
        case "medusa":
            return MedusaDrafter(net(MedusaNet, formats.medusa_sizes, width), target, name)
    return TandemDrafter(net(TandemNet, formats.tandem_sizes), target, name)


def _independent(
    config: dict[str, Any], tensors: fit.Tensors, target: Target, name: str
) -> IndependentDrafter:
    sizes = partial(formats.independent_sizes, config, tensors, target, name)
    own = filled(lambda: own_parts(LlamaForCausalLM(sizes())), tensors, name)
    drafter = IndependentDrafter(borrowing(sizes(), target), target, name)
    if target.device.type != "meta":  # an export needs the shapes alone
        drafter.net.load_state_dict(own.state_dict())
    drafter.net.eval().requires_grad_(False)
    return drafter


def _tli(config: dict[str, Any], tli: int | None, name: str) -> int:
    stored = value(section(config, "drafter", name), "tli", Count, name, None)
    if tli is not None and stored is not None and tli != stored:
        raise UserError(
            f"{name} was trained for TLI N={stored} and cannot draft with N={tli}: each N needs "
            "its own drafter."
        )
    return tli if tli is not None else (stored or 0)


def whole_model(folder: Path, target: Target, name: str) -> IndependentDrafter:
    """An independent drafter from a complete model folder, with its own embeddings and head."""
    with saying(f"The drafter {name} cannot be loaded"):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=target.dtype, **careful())
    if model.config.vocab_size < target.config.vocab_size:
        fit.check_same(name, "vocabulary", model.config.vocab_size, target.config.vocab_size)
    small = Target(moved(model, target.device).requires_grad_(False), name=name)
    return IndependentDrafter(small, target, name)


def filled(make: Callable[[], nn.Module], tensors: fit.Tensors, name: str) -> nn.Module:
    """The net that `make` builds, with a file's tensors. UserError if they do not fit.

    Nothing is allocated for sizes that the file's tensors do not have.
    """
    with saying(f"{name} does not fit this target"):
        with torch.device("meta"):
            net = make()
        for key, wanted in net.state_dict().items():
            fit.check_shape(tensors, key, tuple(wanted.shape))
        # A file may hold more: EAGLE heads include a copy of the target's embeddings.
        net.load_state_dict(tensors, strict=False, assign=True)
    return net


def save_drafter(
    folder: Path, drafter: Drafter, target: Target, more: dict[str, Any], dtype: torch.dtype
) -> None:
    """Write a drafter's folder; `more` are our own keys (training, metrics, tree, licence).

    dtype  of the weights; int8: with a scale for each row of a matrix, as graphs run them
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(drafter_config(drafter, target, more), indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    tensors: fit.Tensors = {}
    for key, one in drafter.net.state_dict().items():
        if dtype == torch.int8:
            tensors |= _packed(key, one.float())
        else:
            tensors[key] = one.to(dtype).contiguous()
    if (words := drafter.vocabulary) is not None:
        tensors["d2t"] = (words - torch.arange(len(words), device=words.device)).int()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _packed(key: str, weight: Tensor) -> fit.Tensors:
    """A matrix in eight bits, with the scale of each row beside it; a vector as it is."""
    if weight.ndim < 2:
        return {key: weight.contiguous()}
    scale = weight.abs().amax(1).clamp_min(1e-12) / 127
    return {key: (weight / scale[:, None]).round().to(torch.int8), key + SCALE: scale}


def unpacked(tensors: fit.Tensors, name: str) -> fit.Tensors:
    """A file's tensors, with matrices in eight bits times their scales."""
    scales = {key.removesuffix(SCALE): tensors[key] for key in tensors if key.endswith(SCALE)}
    for key, scale in scales.items():
        if key not in tensors or tensors[key].shape[:1] != scale.shape:
            raise UserError(f"{name} has a scale for each row of {key}, but not that many rows.")
    return {
        key: one.float() * scales[key][:, None] if key in scales else one
        for key, one in tensors.items()
        if not key.endswith(SCALE)
    }


def drafter_config(drafter: Drafter, target: Target, more: dict[str, Any]) -> dict[str, Any]:
    """config.json of a drafter: the authors' keys, and ours under "drafter"."""
    config = target.config
    shared = ("hidden_size", "rms_norm_eps", "vocab_size", "max_position_embeddings")
    keys, ours = formats.config_keys(drafter)
    if (words := drafter.vocabulary) is not None:
        keys["draft_vocab_size"] = len(words)
    return {
        **{key: getattr(config, key) for key in shared},
        "rope_theta": config.rope_parameters["rope_theta"],
        "hidden_act": "silu",
        **keys,
        "drafter": {**ours, "target": fit.about_target(target), **more},
    }
