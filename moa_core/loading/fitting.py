"""Does a drafter's file fit a target? Checks that name the number which differs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from moa_core.drafters.moa import Sizes
from moa_core.errors import UserError, first_line
from moa_core.model.target import Target

Tensors = dict[str, Tensor]
SAMPLE = 64  # numbers of each weight that tell one training of a model from another


def layer_sizes(tensors: Tensors, prefix: str, heads: int, name: str) -> Sizes:
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


def any_bias(tensors: Tensors, prefix: str, parts: Sequence[str]) -> bool:
    """Whether any of these has a bias; the others must then have one, too."""
    return any(f"{prefix}.{part}_proj.bias" in tensors for part in parts)


def norm_eps(config: dict[str, Any], target: Target, name: str) -> float:
    eps = config.get("rms_norm_eps", target.config.rms_norm_eps)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < 1:
        raise UserError(f"{name} has a config.json whose rms_norm_eps is {eps!r}: not a number.")
    return float(eps)


def whole(config: dict[str, Any], key: str, default: Any, name: str, lowest: int = 1) -> Any:
    """A whole number of a config, or the default where it has none."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise UserError(f"{name} has a config.json whose {key} is {value!r}: not a whole number.")
    return value


def mapping(config: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    """An object within a config, empty where it has none."""
    value = config.get(key) or {}
    if not isinstance(value, dict):
        raise UserError(f"{name} has a config.json whose {key} is {value!r}: not an object.")
    return value


def bare(make: Callable[[], nn.Module], name: str) -> Any:
    """A net whose parameters take no memory yet. UserError for sizes that are none."""
    try:
        with torch.device("meta"):
            return make()
    except (RuntimeError, ValueError, TypeError, ArithmeticError) as error:
        raise UserError(f"{name} has sizes that make no drafter: {first_line(error)}.") from None


def check_shapes(wanted: Mapping[str, Tensor], tensors: Tensors, name: str) -> None:
    """UserError, naming the tensor, unless a file has all that is wanted, in these shapes."""
    missing = sorted(set(wanted) - set(tensors))
    if missing:
        raise UserError(f"{name} lacks the tensor {missing[0]}: its weights are incomplete.")
    for key, value in wanted.items():
        if tensors[key].shape != value.shape:
            raise UserError(
                f"{name} has {key} of shape {tuple(tensors[key].shape)}; "
                f"{tuple(value.shape)} was expected."
            )


def filled(net: nn.Module, tensors: Tensors, name: str, target: Target) -> Any:
    """The net with its weights, in the target's dtype and on its device.

    net  may be `bare`: it takes memory once its shapes are known to be the file's
    """
    wanted = net.state_dict()
    check_shapes(wanted, tensors, name)
    if any(parameter.is_meta for parameter in net.parameters()):
        net.to_empty(device="cpu")
    # Whatever else a file carries (EAGLE heads bring a copy of the embeddings) is the target's.
    net.load_state_dict({key: tensors[key] for key in wanted})
    return net.to(target.device, target.dtype).eval().requires_grad_(False)


def same(name: str, what: str, found: int | None, expected: int | None) -> None:
    """UserError if a number of a drafter is not the target's."""
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


def weights_mark(target: Target) -> str | None:
    """A short hash of a few numbers of every weight, equal for bfloat16 and float32 of one model.

    None where they cannot be compared: quantised, in float16 (which has fewer small numbers), or
    not on this machine.
    """
    samples = []
    for _, weight in sorted(target.decoder.named_parameters()):
        if weight.is_meta or not weight.is_floating_point() or weight.dtype == torch.float16:
            return None
        samples.append(weight.detach().flatten()[:SAMPLE].bfloat16().cpu())
    found = torch.cat(samples).view(torch.int16).numpy().tobytes()
    return hashlib.sha256(found).hexdigest()[:16]


def other_weights(ours: dict[str, Any], target: Target, name: str) -> str:
    """A sentence if a drafter was trained on other weights than the target's; "" if not known.

    Text stays exact with such a pair, and a fine-tuned target may well be served by the drafter of
    its base: so that it is said, and not refused as another shape, RoPE or tokenizer is.
    """
    known = mapping(ours, "target", name)
    trained, here = known.get("weights"), weights_mark(target)
    if trained is None or here is None or trained == here:
        return ""
    return (
        f"{name} was trained on a target with other weights than {target.name or 'this one'} "
        f"({known.get('name') or 'no name'}): text stays exact, but fewer drafts may be accepted."
    )


def check_fit(ours: dict[str, Any], target: Target, name: str) -> None:
    """UserError if a drafter's own keys name another target; the authors' files have none."""
    known = mapping(ours, "target", name)
    for what, found in mapping(known, "shape", name).items():
        same(name, f"target's {what}", found, target_shape(target).get(what))
    if known.get("fingerprint") not in (None, fingerprint(target)):
        raise UserError(f"{name} does not fit this target: the two differ in their RoPE settings.")
    theirs = tokenizer_hash(target.tokenizer)
    if theirs and known.get("tokenizer") not in (None, theirs):
        raise UserError(f"{name} does not fit this target: it was trained with another tokenizer.")
