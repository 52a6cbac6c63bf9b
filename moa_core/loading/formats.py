"""Drafter files: reading and writing tensors and configs, in the authors' layouts and ours.

A drafter is a folder with `config.json` and `model.safetensors`. Sizes are inferred from tensor
shapes, so that a config may be silent about them, as the authors' unconverted ones are. Our own
keys live under "drafter": method, tli, target, default tree, training and metrics.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleConfig, EagleDrafter, EagleNet
from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet
from moa_core.errors import UserError, first_line
from moa_core.loading.fitting import (
    Tensors,
    any_bias,
    bare,
    check_fit,
    filled,
    fingerprint,
    layer_sizes,
    mapping,
    norm_eps,
    other_weights,
    same,
    target_shape,
    tokenizer_hash,
    weights_mark,
    whole,
)
from moa_core.loading.peers import build_peer, peer_keys
from moa_core.loading.strangers import ON_REQUEST, PICKLE, check_sizes, pickles_allowed, read_json
from moa_core.model.target import Target

log = logging.getLogger(__name__)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder. UserError if it is missing or no JSON object."""
    path = folder / "config.json"
    try:
        config = read_json(path)
    except FileNotFoundError:
        raise UserError(f"{folder} has no config.json: it is not a model folder.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}).") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} is not a JSON object.")
    check_sizes(config, str(path))
    return config


def read_tensors(folder: Path, pickles: bool = False) -> Tensors:
    """All tensors of a drafter. UserError if the file is missing, truncated or no tensor file.

    pickles  whether pytorch_model.bin may be opened, as plain weights; see `strangers.PICKLES`
    """
    path = folder / "model.safetensors"
    legacy = folder / PICKLE  # how EAGLE heads are published
    opened = path if path.exists() else legacy
    try:
        if path.exists():
            return load_file(path)
        if legacy.exists() and pickles_allowed(pickles):
            found: Any = torch.load(legacy, map_location="cpu", weights_only=True)
            if isinstance(found, dict) and all(torch.is_tensor(one) for one in found.values()):
                return dict(found)
            raise TypeError
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as error:
        why = first_line(error)
        raise UserError(f"The weights in {folder} are damaged or cut short ({why}).") from None
    except Exception as error:  # pickle's own errors have no common base
        raise UserError(f"{opened} is not a plain weight file ({type(error).__name__}).") from None
    if legacy.exists():
        raise UserError(f"The weights in {folder} are a pickle, {PICKLE}: {ON_REQUEST}")
    raise UserError(f"{folder} has no model.safetensors: there are no weights to load.")


def build_drafter(
    config: dict[str, Any], tensors: Tensors, target: Target, tli: int | None, name: str
) -> Drafter:
    """A drafter for this target from its files. UserError, with the number, if the two do not fit.

    One that was trained on other weights of the same form says so, in its `note` and the log.

    tli  layers to reuse; None: what the config says, else 0
    """
    ours = mapping(config, "drafter", name)
    drafter = _build(config, ours, tensors, target, tli, name)
    drafter.tree = tree_settings(mapping(ours, "tree", name))
    drafter.note = other_weights(ours, target, name)
    if drafter.note:
        log.warning(drafter.note)
    return drafter


def tree_settings(stored: dict[str, Any]) -> TreeSettings:
    """Tree settings from a config, with our defaults for what it leaves out."""
    known = {key: stored[key] for key in ("depth", "breadth", "budget") if key in stored}
    return TreeSettings(**known)


def _build(
    config: dict[str, Any],
    ours: dict[str, Any],
    tensors: Tensors,
    target: Target,
    tli: int | None,
    name: str,
) -> Drafter:
    check_fit(ours, target, name)
    if "vocab_size" in config:  # the authors' configs, too, repeat the target's
        same(name, "vocabulary", config["vocab_size"], target.config.vocab_size)
    method = ours.get("method")
    peer = build_peer(str(method), config, tensors, target, name)
    if peer is not None:
        if tli:
            raise UserError(f"{name} is no MoA drafter: TLI is a part of MoA and does not apply.")
        return peer
    if "cross_attention.self_attn.q_proj.weight" in tensors:
        stored = whole(ours, "tli", None, name, 0)
        if tli is not None and stored is not None and tli != stored:
            raise UserError(
                f"{name} was trained for TLI N={stored} and cannot draft with N={tli}: each N "
                "needs a drafter of its own."
            )
        wanted = tli if tli is not None else (stored or 0)
        sizes = _moa_config(config, ours, tensors, target, name)
        net = bare(lambda: MoANet(sizes), name)
        return MoADrafter(filled(net, tensors, name, target), target, wanted, name)
    if "fc.weight" in tensors and "layers.0.self_attn.q_proj.weight" in tensors:
        if tli:
            raise UserError(f"{name} is an EAGLE head: TLI is a part of MoA and does not apply.")
        sizes_of_head = _eagle_config(config, tensors, target, name)
        head = bare(lambda: EagleNet(sizes_of_head, target.config.hidden_size), name)
        return EagleDrafter(filled(head, tensors, name, target), target, name)
    raise UserError(f"{name} holds neither a MoA drafter nor any other drafter known here.")


def _moa_config(
    config: dict[str, Any], ours: dict[str, Any], tensors: Tensors, target: Target, name: str
) -> MoAConfig:
    width, kv_width = tensors["Ekv2E.weight"].shape if "Ekv2E.weight" in tensors else (None, None)
    same(name, "hidden size", width, target.config.hidden_size)
    same(name, "K and V numbers per layer and token", kv_width, target.kv_width)
    heads = whole(config, "num_attention_heads", target.config.num_attention_heads, name)
    lsa_heads = whole(ours, "lsa_heads", heads, name)
    sa, lsa = "self_attention", "layer_self_attention"
    # SA follows the target's layers: Llama's option has biases on all four projections.
    biased = bool(getattr(target.config, "attention_bias", False))
    return MoAConfig(
        width=target.config.hidden_size,
        kv_width=target.kv_width,
        sa=None if config.get("disable_SA") else layer_sizes(tensors, sa, heads, name),
        ca=layer_sizes(tensors, "cross_attention", heads, name),
        lsa=None if config.get("disable_LSA") else layer_sizes(tensors, lsa, lsa_heads, name),
        eps=norm_eps(config, target, name),
        qkv_bias=biased or any_bias(tensors, "self_attention.self_attn", ("q", "k", "v")),
        o_bias=biased or any_bias(tensors, "self_attention.self_attn", ("o",)),
        mlp_bias=any_bias(tensors, "self_attention.mlp", ("gate", "up", "down")),
        pool=ours.get("lsa_pool", "mean"),  # an option of ours: the authors' files mean the mean
    )


def _eagle_config(
    config: dict[str, Any], tensors: Tensors, target: Target, name: str
) -> EagleConfig:
    width, joined = tensors["fc.weight"].shape
    same(name, "hidden size", width, target.config.hidden_size)
    same(name, "input width", joined, 2 * target.config.hidden_size)
    heads = whole(config, "num_attention_heads", target.config.num_attention_heads, name)
    sizes = layer_sizes(tensors, "layers.0", heads, name)
    return EagleConfig(
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        inner=sizes.inner,
        eps=norm_eps(config, target, name),
        fc_bias="fc.bias" in tensors or config.get("bias") is True,
        qkv_bias=any_bias(tensors, "layers.0.self_attn", ("q", "k", "v")),
        o_bias=any_bias(tensors, "layers.0.self_attn", ("o",)),
    )


def drafter_config(drafter: Drafter, target: Target, more: dict[str, Any]) -> dict[str, Any]:
    """config.json of a drafter: the authors' keys, and ours under "drafter"."""
    about = {
        "target": {
            "name": target.name,
            "shape": target_shape(target),
            "fingerprint": fingerprint(target),
            "tokenizer": tokenizer_hash(target.tokenizer),
            "weights": weights_mark(target),
        },
        **more,
    }
    base = {
        "hidden_size": target.config.hidden_size,
        "rms_norm_eps": target.config.rms_norm_eps,
        "rope_theta": target.config.rope_parameters["rope_theta"],
        "vocab_size": target.config.vocab_size,
        "max_position_embeddings": target.config.max_position_embeddings,
        "hidden_act": "silu",
    }
    if isinstance(drafter, MoADrafter):
        return (
            base
            | _moa_keys(drafter.net.config)
            | {
                "drafter": {
                    "method": "moa",
                    "tli": drafter.tli,
                    "lsa_heads": drafter.net.config.lsa and drafter.net.config.lsa.heads,
                    "lsa_pool": drafter.net.config.pool,
                    **about,
                }
            }
        )
    if (peer := peer_keys(drafter)) is not None:
        method, keys = peer
        return base | keys | {"drafter": {"method": method, **about}}
    assert isinstance(drafter, EagleDrafter)
    return base | eagle_keys(drafter.net.config) | {"drafter": {"method": "eagle2", **about}}


def eagle_keys(sizes: EagleConfig) -> dict[str, Any]:
    """Sizes in the keys of SafeAILab's format."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "intermediate_size": sizes.inner,
        "bias": sizes.fc_bias,
    }


def _moa_keys(config: MoAConfig) -> dict[str, Any]:
    """The keys of the authors' published format."""
    keys: dict[str, Any] = {
        "architectures": ["MOASpecModel"],
        "model_type": "moa_spec",
        "kv_hidden_size": config.kv_width,
        "num_attention_heads": config.ca.heads,
        "head_dim": config.ca.head_dim,
        "disable_LSA": config.lsa is None,
    }
    if config.sa is None:
        keys["disable_SA"] = True  # an ablation of ours: the authors' configs have no such key
    parts = {
        "self_attention": config.sa,
        "cross_attention": config.ca,
        "layer_self_attention": config.lsa,
    }
    for prefix, sizes in parts.items():
        if sizes is None:
            continue
        keys[f"{prefix}_num_key_value_heads"] = sizes.kv_heads
        keys[f"{prefix}_intermediate_size"] = sizes.inner
    return keys


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
