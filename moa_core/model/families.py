"""Which models can be a target: drafting and TLI must be able to run them layer by layer."""

from types import SimpleNamespace
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from moa_core.errors import UserError

# Tested here with trained drafters. A target of any other family has its logits checked at load.
FAMILIES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
STATIC_ROPE = ("default", "linear", "llama3", "yarn")  # angles that do not depend on the length
ATTENTION = ("full_attention", "sliding_attention")
UNSUPPORTED = {  # what a target must not do, by its config's key
    "embedding_multiplier": "it scales its embeddings",
    "logits_scaling": "it scales its logits",
    "logit_scale": "it scales its logits",
    "final_logit_softcapping": "it caps its logits",
    "attn_logit_softcapping": "it caps its attention scores",
    "kv_lora_rank": "it caches compressed K and V",
}


def check_config(config: PretrainedConfig) -> None:
    """UserError, with the reason, for a model that cannot be a target. Needs no weights."""
    if reason := _reason(config):
        _refuse(config, reason)


def check_parts(model: PreTrainedModel) -> None:
    """UserError that names a part that the model lacks."""
    decoder = model.base_model
    for part, words in (
        ("layers", "list of decoder layers"),
        ("norm", "final norm"),
        ("rotary_emb", "rotary position embedding"),
    ):
        if not hasattr(decoder, part):
            _refuse(model.config, f"its decoder has no {words} (`{part}`)")
    if model.get_output_embeddings() is None:
        _refuse(model.config, "it has no language model head")
    if model.config.model_type not in FAMILIES and not getattr(model, "_supports_sdpa", True):
        _refuse(model.config, "its attention takes no mask of a tree (no sdpa)")


@torch.inference_mode()
def check_logits(target: Any) -> None:
    """UserError if a target of an untested family gives other logits than its own model.

    Compares a prompt and a small tree, read layer by layer, with transformers' forward.
    """
    model = target.model
    tensors = [*model.parameters(), *model.buffers()]
    if model.config.model_type in FAMILIES or any(tensor.is_meta for tensor in tensors):
        return
    seen = torch.tensor([[True, False, False], [True, True, False], [True, False, True]])
    fork = SimpleNamespace(tokens=(1, 2, 3), depths=(0, 1, 1), ancestors=lambda: seen)
    try:
        run = target.fork()
        first, _ = run.prefill([0, 1, 2], 16)
        found = [first, *run.verify(fork)]
    except (AttributeError, TypeError, RuntimeError, ValueError) as error:
        _refuse(model.config, f"its layers do not take what they are given ({error})")
    texts = ([0, 1, 2], [0, 1, 2, 1], [0, 1, 2, 1, 2], [0, 1, 2, 1, 3])
    for text, logits in zip(texts, found, strict=True):
        own = model(input_ids=torch.tensor([text], device=target.device)).logits[0, -1].float()
        apart = float((logits.float() - own).norm() / own.norm())
        if not apart < 0.1:  # bfloat16 rounds to a hundredth or so
            _refuse(model.config, f"its logits are then {apart:.0%} off")


def _reason(config: PretrainedConfig) -> str | None:
    """Why a config cannot be a target's; None if it can."""
    for key, words in UNSUPPORTED.items():
        if getattr(config, key, None) not in (None, 1, 1.0, False):
            return f"{words} (`{key}`)"
    kinds = set(getattr(config, "layer_types", None) or ()) - set(ATTENTION)
    if kinds:
        return f"it has layers of {', '.join(sorted(kinds)).replace('_', ' ')}"
    rope = getattr(config, "rope_parameters", None)
    if not rope:
        return "it has no rotary position embedding"
    if "rope_theta" not in rope:
        return "its layers differ in their rotary position embedding"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        return "it rotates only a part of each head (`partial_rotary_factor`)"
    if rope.get("rope_type", "default") not in STATIC_ROPE:
        return f"its positions depend on the text's length (`rope_type` {rope['rope_type']})"
    if getattr(config, "rms_norm_eps", None) is None:
        return "its norms are not RMSNorm (no `rms_norm_eps`)"
    return None


def _refuse(config: PretrainedConfig, reason: str) -> None:
    known = ", ".join(FAMILIES.values())
    raise UserError(
        f"A model of type {config.model_type} cannot be a target here: {reason}. "
        f"Known to work: {known}, and others built like them."
    ) from None
