"""Drafter files: reading and writing tensors and configs, in the authors' layouts and ours.

A drafter is a folder with `config.json` and `model.safetensors`. Sizes are inferred from tensor
shapes, so that a config may be silent about them, as the authors' unconverted ones are. Our own
keys live under "drafter": method, tli, target, default tree, training and metrics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleConfig, EagleDrafter, EagleNet
from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.errors import UserError
from moa_core.target import Target
from moa_core.tree import TreeSettings

Tensors = dict[str, Tensor]


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder. UserError if it is missing or no JSON object."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} has no config.json: it is not a model folder.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}).") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} is not a JSON object.")
    return config


def read_tensors(folder: Path) -> Tensors:
    """All tensors of a drafter. UserError if the file is missing, truncated or no tensor file."""
    path = folder / "model.safetensors"
    legacy = folder / "pytorch_model.bin"  # how EAGLE heads are published
    try:
        if path.exists():
            return load_file(path)
        if legacy.exists():
            return torch.load(legacy, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as error:
        raise UserError(f"The weights in {folder} are damaged or cut short ({error}).") from None
    except Exception as error:  # pickle's own errors have no common base
        raise UserError(f"{legacy} is not a plain weight file ({type(error).__name__}).") from None
    raise UserError(f"{folder} has no model.safetensors: there are no weights to load.")


def build_drafter(
    config: dict[str, Any], tensors: Tensors, target: Target, tli: int | None, name: str
) -> Drafter:
    """A drafter for this target from its files. UserError, with the number, if the two do not fit.

    tli  layers to reuse; None: what the config says, else 0
    """
    ours = _mapping(config, "drafter", name)
    drafter = _build(config, ours, tensors, target, tli, name)
    drafter.tree = tree_settings(_mapping(ours, "tree", name))
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
        _same(name, "vocabulary", config["vocab_size"], target.config.vocab_size)
    if "self_attention.self_attn.q_proj.weight" in tensors:
        stored = _whole(ours, "tli", None, name, 0)
        if tli is not None and stored is not None and tli != stored:
            raise UserError(
                f"{name} was trained for TLI N={stored} and cannot draft with N={tli}: each N "
                "needs a drafter of its own."
            )
        wanted = tli if tli is not None else (stored or 0)
        net = MoANet(_moa_config(config, ours, tensors, target, name))
        return MoADrafter(_filled(net, tensors, name, target), target, wanted, name)
    if "fc.weight" in tensors and "layers.0.self_attn.q_proj.weight" in tensors:
        if tli:
            raise UserError(f"{name} is an EAGLE head: TLI is a part of MoA and does not apply.")
        net = EagleNet(_eagle_config(config, tensors, target, name), target.config.hidden_size)
        return EagleDrafter(_filled(net, tensors, name, target), target, name)
    raise UserError(f"{name} holds neither a MoA drafter nor an EAGLE head.")


def _moa_config(
    config: dict[str, Any], ours: dict[str, Any], tensors: Tensors, target: Target, name: str
) -> MoAConfig:
    width, kv_width = tensors["Ekv2E.weight"].shape if "Ekv2E.weight" in tensors else (None, None)
    _same(name, "hidden size", width, target.config.hidden_size)
    _same(name, "K and V numbers per layer and token", kv_width, target.kv_width)
    heads = _whole(config, "num_attention_heads", target.config.num_attention_heads, name)
    lsa_heads = _whole(ours, "lsa_heads", heads, name)
    lsa = "layer_self_attention"
    # SA follows the target's layers: Llama's option has biases on all four projections.
    biased = bool(getattr(target.config, "attention_bias", False))
    return MoAConfig(
        width=target.config.hidden_size,
        kv_width=target.kv_width,
        sa=_sizes(tensors, "self_attention", heads, name),
        ca=_sizes(tensors, "cross_attention", heads, name),
        lsa=None if config.get("disable_LSA") else _sizes(tensors, lsa, lsa_heads, name),
        eps=_eps(config, target, name),
        qkv_bias=biased or _any_bias(tensors, "self_attention.self_attn", ("q", "k", "v")),
        o_bias=biased or _any_bias(tensors, "self_attention.self_attn", ("o",)),
        mlp_bias=_any_bias(tensors, "self_attention.mlp", ("gate", "up", "down")),
    )


def _eagle_config(
    config: dict[str, Any], tensors: Tensors, target: Target, name: str
) -> EagleConfig:
    width, joined = tensors["fc.weight"].shape
    _same(name, "hidden size", width, target.config.hidden_size)
    _same(name, "input width", joined, 2 * target.config.hidden_size)
    heads = _whole(config, "num_attention_heads", target.config.num_attention_heads, name)
    sizes = _sizes(tensors, "layers.0", heads, name)
    return EagleConfig(
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        inner=sizes.inner,
        eps=_eps(config, target, name),
        fc_bias="fc.bias" in tensors or config.get("bias") is True,
        qkv_bias=_any_bias(tensors, "layers.0.self_attn", ("q", "k", "v")),
        o_bias=_any_bias(tensors, "layers.0.self_attn", ("o",)),
    )


def _sizes(tensors: Tensors, prefix: str, heads: int, name: str) -> Sizes:
    """A layer's sizes from the shapes of its tensors, given its number of heads."""
    try:
        queries, keys, inner = (
            tensors[f"{prefix}.{part}_proj.weight"].shape[0]
            for part in ("self_attn.q", "self_attn.k", "mlp.gate")
        )
    except KeyError as error:
        raise UserError(f"{name} lacks the tensor {error}: its weights are incomplete.") from None
    size = queries // heads
    if queries % heads or not size or keys % size:
        raise UserError(f"{name} has a {prefix} of {queries} rows, which {heads} heads do not fit.")
    return Sizes(heads, keys // size, size, inner)


def _any_bias(tensors: Tensors, prefix: str, parts: Sequence[str]) -> bool:
    """Whether any of these has a bias; the others must then have one, too."""
    return any(f"{prefix}.{part}_proj.bias" in tensors for part in parts)


def _eps(config: dict[str, Any], target: Target, name: str) -> float:
    eps = config.get("rms_norm_eps", target.config.rms_norm_eps)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < 1:
        raise UserError(f"{name} has a config.json whose rms_norm_eps is {eps!r}: not a number.")
    return float(eps)


def _whole(config: dict[str, Any], key: str, default: Any, name: str, lowest: int = 1) -> Any:
    """A whole number of a config, or the default where it has none."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise UserError(f"{name} has a config.json whose {key} is {value!r}: not a whole number.")
    return value


def _mapping(config: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    """An object within a config, empty where it has none."""
    value = config.get(key) or {}
    if not isinstance(value, dict):
        raise UserError(f"{name} has a config.json whose {key} is {value!r}: not an object.")
    return value


def _filled(net: nn.Module, tensors: Tensors, name: str, target: Target) -> Any:
    """The net with its weights, in the target's dtype and on its device."""
    wanted = net.state_dict()
    missing = sorted(set(wanted) - set(tensors))
    if missing:
        raise UserError(f"{name} lacks the tensor {missing[0]}: its weights are incomplete.")
    for key, value in wanted.items():
        if tensors[key].shape != value.shape:
            raise UserError(
                f"{name} has {key} of shape {tuple(tensors[key].shape)}; "
                f"{tuple(value.shape)} was expected."
            )
    # Whatever else a file carries (EAGLE heads bring a copy of the embeddings) is the target's.
    net.load_state_dict({key: tensors[key] for key in wanted})
    return net.to(target.device, target.dtype).eval().requires_grad_(False)


def _same(name: str, what: str, found: int | None, expected: int) -> None:
    if found != expected:
        raise UserError(
            f"{name} does not fit this target: its {what} is {found}, the target's is {expected}."
        )


def target_shape(target: Target) -> dict[str, int]:
    """The numbers of a target that its drafters depend on."""
    config = target.config
    return {
        "hidden size": config.hidden_size,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "kv heads": target.kv_heads,
        "head size": target.head_dim,
        "vocabulary": config.vocab_size,
    }


def fingerprint(target: Target) -> str:
    """A short hash of a target's shape and RoPE: equal for targets a drafter cannot tell apart."""
    facts = {**target_shape(target), "rope": dict(target.config.rope_parameters)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase | None) -> str | None:
    """A short hash of a tokenizer's whole definition."""
    if tokenizer is None:
        return None
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()[:16]


def check_fit(ours: dict[str, Any], target: Target, name: str) -> None:
    """UserError if a drafter's own keys name another target; the authors' files have none."""
    known = _mapping(ours, "target", name)
    for what, found in _mapping(known, "shape", name).items():
        _same(name, f"target's {what}", found, target_shape(target).get(what))
    if known.get("fingerprint") not in (None, fingerprint(target)):
        raise UserError(f"{name} does not fit this target: the two differ in their RoPE settings.")
    theirs = tokenizer_hash(target.tokenizer)
    if theirs and known.get("tokenizer") not in (None, theirs):
        raise UserError(f"{name} does not fit this target: it was trained with another tokenizer.")


def drafter_config(drafter: Drafter, target: Target, more: dict[str, Any]) -> dict[str, Any]:
    """config.json of a drafter: the authors' keys, and ours under "drafter"."""
    about = {
        "target": {
            "name": target.name,
            "shape": target_shape(target),
            "fingerprint": fingerprint(target),
            "tokenizer": tokenizer_hash(target.tokenizer),
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
                    **about,
                }
            }
        )
    assert isinstance(drafter, EagleDrafter)
    sizes = drafter.net.config
    return base | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "intermediate_size": sizes.inner,
        "bias": sizes.fc_bias,
        "drafter": {"method": "eagle2", **about},
    }


def _moa_keys(config: MoAConfig) -> dict[str, Any]:
    """The keys of the authors' published format."""
    keys: dict[str, Any] = {
        "architectures": ["MOASpecModel"],
        "model_type": "moa_spec",
        "kv_hidden_size": config.kv_width,
        "num_attention_heads": config.sa.heads,
        "head_dim": config.sa.head_dim,
        "disable_LSA": config.lsa is None,
    }
    parts = {"self_attention": config.sa, "cross_attention": config.ca}
    if config.lsa:
        parts["layer_self_attention"] = config.lsa
    for prefix, sizes in parts.items():
        keys[f"{prefix}_num_key_value_heads"] = sizes.kv_heads
        keys[f"{prefix}_intermediate_size"] = sizes.inner
    return keys


def save_drafter(
    folder: Path, drafter: Drafter, target: Target, more: dict[str, Any], dtype: torch.dtype
) -> None:
    """Write a drafter's folder; `more` are our own keys (training, metrics, tree, licence)."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(drafter_config(drafter, target, more), indent=2)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    tensors = {key: value.to(dtype).contiguous() for key, value in drafter.net.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
