"""The layouts of an export: its authors' own, and one for `generate` of transformers.

Facts of the authors' layouts from huawei-noah/HEBO, branch mixture-of-attentions
(moa_spec/models/train/moa_spec.py), and SafeAILab/EAGLE. Both read configs as transformers 4 wrote
them. SGLang and vLLM find their class for an EAGLE head by `architectures`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError, first_line
from moa_core.export.card import DISTRIBUTION, card, notes_beside
from moa_core.export.source import Source, embeddings_of
from moa_core.loading.drafter_files import drafter_config
from moa_core.loading.formats import eagle_keys
from moa_core.model.target import Target

Files = tuple[dict[str, Any], dict[str, Tensor]]  # config.json and model.safetensors

LAYOUT_OF = "4.45.2"  # the transformers whose config keys these are
FAMILIES = ("llama", "qwen2")  # that the authors have training classes for
TARGET_KEYS = {  # of a target's config, with what they mean where it does not say
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": None, "eos_token_id": None,
    "hidden_act": "silu", "hidden_size": None, "initializer_range": 0.02,
    "intermediate_size": None, "max_position_embeddings": None, "mlp_bias": False,
    "model_type": None, "num_attention_heads": None, "num_hidden_layers": None,
    "pretraining_tp": 1, "rms_norm_eps": None, "tie_word_embeddings": False, "use_cache": True,
    "vocab_size": None,
}  # fmt: skip
NOT_OF_EAGLE = {"attention_bias", "attention_dropout", "head_dim", "mlp_bias", "pretraining_tp"}
CODE = {
    "custom_generate/generate.py": '''"""Speculative decoding with its drafter: see README.md."""

from moa_core.export.generate import generate

__all__ = ["generate"]
''',
    "custom_generate/requirements.txt": f"{DISTRIBUTION}\n",
}


def export(
    source: Source, kind: str, folder: Path, *, overwrite: bool = False, licence: str | None = None
) -> None:
    """Write a drafter in one of FORMATS, with its card. Nothing is written if it cannot be.

    licence  of the weights, where the config does not say it
    """
    check_empty(folder, overwrite)
    config, tensors = FORMATS[kind](source)
    texts = {"README.md": card(source, kind, licence)}
    texts |= CODE if kind == "custom-generate" else {}
    texts["config.json"] = json.dumps(config, indent=2) + "\n"
    contents = {path: text.encode() for path, text in texts.items()} | notes_beside(source)
    try:
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be written to: {first_line(error)}") from error


def check_empty(folder: Path, overwrite: bool) -> None:
    """UserError if something is there that nobody allowed to be replaced."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder to export to.")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: name another folder, or add --overwrite.")


def _custom_generate(source: Source) -> Files:
    config = drafter_config(source.drafter, source.target, {})
    kept = {key: one for key, one in source.ours.items() if key not in ("method", "tli", "target")}
    config["drafter"] |= kept
    config["drafter"]["target"]["name"] = source.verifier
    return config, source.tensors


def _authors(source: Source) -> Files:
    """As the method's own authors save it. UserError if they have no such layout."""
    if isinstance(source.drafter, MoADrafter):
        _check_moa(source, source.drafter)
        config = {
            "_name_or_path": source.verifier,
            "architectures": ["MOASpec"],
            **_target_keys(source.target),
        }
        tensors = source.tensors  # their SA and LSA may have biases that begin at zero
    elif isinstance(source.drafter, EagleDrafter):
        config, tensors = _eagle(source, source.drafter), _with_embeddings(source)
    else:
        raise UserError(f"{source.name} is {source.kind}: no layout of its authors is known here.")
    config |= {"torch_dtype": source.dtype, "transformers_version": LAYOUT_OF}
    # Our own keys, which others ignore; of a file that had only N, N.
    ours = source.ours or ({"method": "moa", "tli": source.tli} if source.tli else {})
    return config | ({"drafter": ours} if ours else {}), tensors


def _check_moa(source: Source, drafter: MoADrafter) -> None:
    """UserError, with the number, where the authors' class would build other layers than ours."""
    name, sizes, config = source.name, drafter.net.config, source.target.config
    heads, width = config.num_attention_heads, config.hidden_size
    if sizes.sa is None or sizes.lsa is None:
        raise UserError(f"{name} lacks SA or LSA, which the authors' code always has.")
    if sizes.pool != "mean":
        raise UserError(
            f"{name} keeps the {sizes.pool} of LSA's rows, and the authors' code their mean: "
            "train moa-mean-lsa, or export it as custom-generate."
        )
    if sizes.lsa.heads != heads:
        raise UserError(
            f"{name} has {sizes.lsa.heads} LSA heads; the authors' code takes the target's {heads}."
        )
    if width != heads * source.target.head_dim:
        raise UserError(
            f"{source.verifier} has heads of size {source.target.head_dim}; the authors' code "
            f"assumes its width over its heads, {width / heads:g}."
        )
    if config.model_type not in FAMILIES:
        raise UserError(
            f"The authors' training class is made for {' and '.join(FAMILIES)} targets, and "
            f"{source.verifier} is a {config.model_type}."
        )


def _target_keys(target: Target) -> dict[str, Any]:
    """A target's config in transformers 4's keys, where RoPE has two of its own."""
    config = target.config
    keys = {key: getattr(config, key, usual) for key, usual in TARGET_KEYS.items()}
    rope = dict(config.rope_parameters)
    theta, kind = rope.pop("rope_theta"), rope.get("rope_type", "default")
    if config.pad_token_id is not None:
        keys["pad_token_id"] = config.pad_token_id
    return keys | {
        "head_dim": target.head_dim,
        "num_key_value_heads": target.kv_heads,
        "rope_theta": theta,
        "rope_scaling": None if kind == "default" else rope,
    }


def _eagle(source: Source, drafter: EagleDrafter) -> dict[str, Any]:
    sizes = drafter.net.config
    if sizes.o_bias or sizes.heads * sizes.head_dim != source.target.config.hidden_size:
        raise UserError(
            f"{source.name} has a bias after its attention, or heads that are not its width "
            "together: SafeAILab's code can hold neither."
        )
    theirs = {k: one for k, one in _target_keys(source.target).items() if k not in NOT_OF_EAGLE}
    # SGLang's class has a bias where it joins embedding and feature, vLLM's has none.
    architecture = "LlamaForCausalLMEagle" if sizes.fc_bias else "EagleLlamaForCausalLM"
    return {
        **theirs,
        **eagle_keys(sizes),
        "architectures": [architecture],
        "rms_norm_eps": sizes.eps,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        **({"qkv_bias": True} if sizes.qkv_bias else {}),
    }


def _with_embeddings(source: Source) -> dict[str, Tensor]:
    """Tensors with a copy of the target's embeddings, which SafeAILab's head brings along."""
    weight = source.embedding
    if weight is None:
        dtype = next(iter(source.tensors.values())).dtype
        whole = source.target.embed.weight.detach()
        weight = (embeddings_of(source.place) if whole.is_meta else whole).to("cpu", dtype)
    return source.tensors | {"embed_tokens.weight": weight.contiguous()}


FORMATS: dict[str, Callable[[Source], Files]] = {
    "authors": _authors,
    "custom-generate": _custom_generate,
}
