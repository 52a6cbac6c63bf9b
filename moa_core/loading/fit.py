"""Whether a drafter fits a target. Another shape, RoPE or tokenizer is refused. Other weights are
allowed, with a note."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from moa_core.drafters.moa import Sizes
from moa_core.errors import UserError
from moa_core.loading.untrusted import section
from moa_core.model.target import Target

Tensors = dict[str, Tensor]
SAMPLE = 64  # numbers per weight, which identify one training of a model


def about_target(target: Target) -> dict[str, Any]:
    """A drafter's config entry about the target that it was trained for."""
    return {
        "name": target.name,
        "shape": _shape(target),
        "fingerprint": fingerprint(target),
        "tokenizer": tokenizer_hash(target.tokenizer),
        "weights": weights_hash(target),
    }


def check_fit(config: dict[str, Any], target: Target, name: str) -> None:
    """UserError if a drafter's config names another target. The authors' configs name only its
    vocabulary."""
    known = section(section(config, "drafter", name), "target", name)
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


def check_same(name: str, what: str, found: Any, expected: int | None) -> None:
    if found != expected:
        raise UserError(
            f"{name} does not fit this target: its {what} is {found}, the target's is {expected}."
        )


def check_shape(tensors: Tensors, key: str, expected: tuple[int, ...]) -> None:
    found = tuple(tensors[key].shape)
    if found != expected:
        raise ValueError(f"{key} has the shape {found}, not {expected}")


def layer_sizes(tensors: Tensors, part: str, heads: int) -> Sizes:
    """A layer's sizes, from the rows of its tensors. part: prefix of their names."""
    queries, keys, inner = (
        len(tensors[f"{part}.{one}_proj.weight"])
        for one in ("self_attn.q", "self_attn.k", "mlp.gate")
    )
    head = queries // heads
    if queries % heads or not head or keys % head:
        raise ValueError(f"{heads} heads do not fit {queries} rows of {part}")
    return Sizes(heads, keys // head, head, inner)


def check_tokenizer(theirs: PreTrainedTokenizerBase | None, target: Target, name: str) -> None:
    """UserError if an independent model's tokenizer differs from the target's."""
    ours = target.tokenizer
    if theirs is not None and ours is not None and theirs.get_vocab() != ours.get_vocab():
        raise UserError(f"{name} does not fit this target: it has another tokenizer.")


def other_weights(config: dict[str, Any], target: Target, name: str) -> str:
    """A note if a drafter was trained on other weights than the target's; "" if unknown.

    Text stays exact with such a pair, and a base model's drafter may suit a fine-tuned model.
    """
    known = section(section(config, "drafter", name), "target", name)
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
