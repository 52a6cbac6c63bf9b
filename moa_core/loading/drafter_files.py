"""A drafter's folder, with `config.json` and `model.safetensors`: reading and writing.

A drafter for another shape, RoPE or tokenizer is refused. Other weights are allowed, with a note.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from moa_core.drafters.independent import IndependentDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.drafters.registry import found_in
from moa_core.drafters.trained import Files, Tensors, Trained, check_same
from moa_core.errors import UserError, saying
from moa_core.loading.catalog import tree_settings
from moa_core.model.target import Target
from moa_core.untrusted import careful, section

log = logging.getLogger(__name__)
SAMPLE = 64  # numbers per weight, which identify one training of a model
SCALE = ".scale"  # ends the name of the scales of a matrix in eight bits


def build_drafter(
    config: dict[str, Any], tensors: Tensors, target: Target, tli: int | None, name: str
) -> Trained:
    """A drafter for this target from its files. UserError, with the number, if they do not fit.

    If it was trained on other weights of the same shape, the log says so.

    tli  layers to reuse; None: the config's value, else 0
    """
    files = Files(name, config, unpacked(tensors, name))
    kind = found_in(files.ours, {}, files.tensors)
    if kind is None:
        raise UserError(f"{name} holds neither a MoA drafter nor any other drafter known here.")
    files = kind.in_one_form(files)
    check_fit(files, target)
    if tli and kind is not MoADrafter:
        raise UserError(f"{name} is not a MoA drafter, so TLI does not apply.")
    drafter = kind.from_files(files, target, tli)
    drafter.vocabulary = vocabulary_of(files, target)
    drafter.tree = tree_settings(section(files.ours, "tree", name), name)
    if note := other_weights(files, target):
        log.warning(note)
    return drafter


def vocabulary_of(files: Files, target: Target) -> Tensor | None:
    """The ids [D] of the tokens that a file's drafter drafts; None: all of the target's.

    As in EAGLE-3's files, `d2t` holds each one's offset from its place.
    """
    if (offsets := files.tensors.get("d2t")) is None:
        return None
    if offsets.ndim != 1 or offsets.is_floating_point():
        raise UserError(
            f"{files.name} does not fit this target: d2t is not a list of whole numbers."
        )
    ids = offsets.long() + torch.arange(len(offsets))
    if bool(((ids < 0) | (ids >= target.config.vocab_size)).any()):
        raise UserError(f"{files.name} drafts tokens that this target's vocabulary does not have.")
    return ids.to(target.device)


def whole_model(folder: Path, target: Target, name: str) -> IndependentDrafter:
    """An independent drafter from a complete model folder, with its own embeddings and head."""
    with saying(f"The drafter {name} cannot be loaded"):
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=target.dtype, **careful())
    if model.config.vocab_size < target.config.vocab_size:
        check_same(name, "vocabulary", model.config.vocab_size, target.config.vocab_size)
    small = Target(model.to(target.device).requires_grad_(False), name=name)
    return IndependentDrafter(small, target, name)


def save_drafter(
    folder: Path, drafter: Trained, target: Target, more: dict[str, Any], dtype: torch.dtype
) -> None:
    """Write a drafter's folder; `more` are our own keys (training, metrics, tree, licence).

    dtype  of the weights; int8: with a scale for each row of a matrix, as graphs run them
    """
    text = json.dumps(drafter_config(drafter, target, more), indent=2)
    tensors: Tensors = {}
    for key, one in drafter.net.state_dict().items():
        if dtype == torch.int8:
            tensors |= _packed(key, one.float())
        else:
            tensors[key] = one.to(dtype).contiguous()
    if (words := drafter.vocabulary) is not None:
        tensors["d2t"] = (words - torch.arange(len(words), device=words.device)).int()
    with saying(f"A drafter cannot be written to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def _packed(key: str, weight: Tensor) -> Tensors:
    """A matrix in eight bits, with the scale of each row beside it; a vector as it is."""
    if weight.ndim < 2:
        return {key: weight.contiguous()}
    scale = weight.abs().amax(1).clamp_min(1e-12) / 127
    return {key: (weight / scale[:, None]).round().to(torch.int8), key + SCALE: scale}


def unpacked(tensors: Tensors, name: str) -> Tensors:
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


def drafter_config(drafter: Trained, target: Target, more: dict[str, Any]) -> dict[str, Any]:
    """config.json of a drafter: the authors' keys, and ours under "drafter"."""
    config = target.config
    shared = ("hidden_size", "rms_norm_eps", "vocab_size", "max_position_embeddings")
    keys, ours = drafter.config_keys()
    if (words := drafter.vocabulary) is not None:
        keys["draft_vocab_size"] = len(words)
    trained_for = {
        "name": target.name, "shape": _shape(target), "fingerprint": fingerprint(target),
        "tokenizer": tokenizer_hash(target.tokenizer), "weights": weights_hash(target),
    }  # fmt: skip
    return {
        **{key: getattr(config, key) for key in shared},
        "rope_theta": config.rope_parameters["rope_theta"],
        "hidden_act": "silu",
        **keys,
        "drafter": {"method": drafter.method, **ours, "target": trained_for, **more},
    }


def check_fit(files: Files, target: Target) -> None:
    """UserError if a drafter's config names another target. The authors' configs name only its
    vocabulary."""
    name, config = files.name, files.config
    known = section(files.ours, "target", name)
    trained = section(known, "shape", name)
    if "vocab_size" in config:
        trained["vocabulary"] = config["vocab_size"]
    for what, number in trained.items():
        called = f"number of {what}" if what.endswith("s") else what
        check_same(name, f"target's {called}", number, _shape(target).get(what))
    if known.get("fingerprint") not in (None, fingerprint(target)):
        raise UserError(f"{name} does not fit this target: the two differ in their RoPE settings.")
    theirs = tokenizer_hash(target.tokenizer)
    if theirs and known.get("tokenizer") not in (None, theirs):
        raise UserError(f"{name} does not fit this target: it was trained with another tokenizer.")


def check_tokenizer(theirs: PreTrainedTokenizerBase | None, target: Target, name: str) -> None:
    """UserError if an independent model's tokenizer differs from the target's."""
    ours = target.tokenizer
    if theirs is not None and ours is not None and theirs.get_vocab() != ours.get_vocab():
        raise UserError(f"{name} does not fit this target: it has another tokenizer.")


def other_weights(files: Files, target: Target) -> str:
    """A note if a drafter was trained on other weights than the target's; "" if unknown.

    Text stays exact with such a pair, and a base model's drafter may suit a fine-tuned model.
    """
    name, known = files.name, section(files.ours, "target", files.name)
    trained, here = known.get("weights"), weights_hash(target)
    if trained is None or here is None or trained == here:
        return ""
    return (
        f"{name} was trained on a target with other weights than {target.name or 'this one'} "
        f"({known.get('name') or 'no name'}): text stays exact, but fewer drafts may be accepted."
    )


def _shape(target: Target) -> dict[str, int]:
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
    facts = {**_shape(target), "rope": dict(target.config.rope_parameters)}
    return _short_hash(json.dumps(facts, sort_keys=True).encode())


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase | None) -> str | None:
    if tokenizer is None:
        return None
    return _short_hash(tokenizer.backend_tokenizer.to_str().encode())


def weights_hash(target: Target) -> str | None:
    """A short hash of a few numbers of every weight, equal for bfloat16 and float32 of one model.

    None if they cannot be compared: quantised, in float16 (which has fewer small numbers), or not
    on this machine.
    """
    samples = []
    for _, weight in sorted(target.decoder.named_parameters()):
        if weight.is_meta or not weight.is_floating_point() or weight.dtype == torch.float16:
            return None
        samples.append(weight.detach().flatten()[:SAMPLE].bfloat16().cpu())
    return _short_hash(torch.cat(samples).view(torch.int16).numpy().tobytes())


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
