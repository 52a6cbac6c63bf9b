"""The layouts of the authors' code: their training class's, and SafeAILab's for EAGLE heads.

Facts from huawei-noah/HEBO, branch mixture-of-attentions (moa_spec/models/train/moa_spec.py), and
SafeAILab/EAGLE. Both read configs as transformers 4 wrote them. SGLang and vLLM find their class
for an EAGLE head by `architectures` (their models/llama_eagle.py).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.export.shape import embeddings_of
from moa_core.export.source import Source
from moa_core.loading.formats import eagle_keys
from moa_core.model.target import Target

Files = tuple[dict[str, Any], dict[str, Tensor]]  # config.json and model.safetensors

LAYOUT_OF = "4.45.2"  # the transformers whose config keys these are
FAMILIES = ("llama", "qwen2")  # of which there are training classes
TARGET_KEYS = {  # of a target's config, with what they mean where it does not say
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": None, "eos_token_id": None,
    "hidden_act": "silu", "hidden_size": None, "initializer_range": 0.02,
    "intermediate_size": None, "max_position_embeddings": None, "mlp_bias": False,
    "model_type": None, "num_attention_heads": None, "num_hidden_layers": None,
    "pretraining_tp": 1, "rms_norm_eps": None, "tie_word_embeddings": False, "use_cache": True,
    "vocab_size": None,
}  # fmt: skip


def authors_files(source: Source) -> Files:
    """Config and tensors as the method's own authors save them. UserError if they have no such."""
    if isinstance(source.drafter, MoADrafter):
        return _moa(source, source.drafter)
    if isinstance(source.drafter, EagleDrafter):
        return _eagle(source, source.drafter)
    raise UserError(f"{source.name} is {source.kind}: no layout of its authors is known here.")


def check_moa(source: Source, drafter: MoADrafter) -> None:
    """UserError, with the number, where the authors' class would build other layers than ours."""
    name, sizes, config = source.name, drafter.net.config, source.target.config
    if sizes.sa is None or sizes.lsa is None:
        raise UserError(f"{name} lacks SA or LSA, which the authors' code always has.")
    if sizes.pool != "mean":
        raise UserError(
            f"{name} keeps the {sizes.pool} of LSA's rows, and the authors' code their mean: "
            "train moa-mean-lsa, or export it as custom-generate."
        )
    heads = config.num_attention_heads
    if sizes.lsa.heads != heads:
        raise UserError(
            f"{name} has {sizes.lsa.heads} LSA heads; the authors' code takes the target's {heads}."
        )
    if config.hidden_size != heads * source.target.head_dim:
        raise UserError(
            f"{source.verifier} has heads of size {source.target.head_dim}; the authors' code "
            f"assumes its width over its heads, {config.hidden_size / heads:g}."
        )


def target_keys(target: Target) -> dict[str, Any]:
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


def _moa(source: Source, drafter: MoADrafter) -> Files:
    check_moa(source, drafter)
    family = source.target.config.model_type
    if family not in FAMILIES:
        raise UserError(
            f"The authors' training class is made for {' and '.join(FAMILIES)} targets, and "
            f"{source.verifier} is a {family}."
        )
    config = {
        "_name_or_path": source.verifier,
        "architectures": ["MOASpec"],
        **target_keys(source.target),
        "torch_dtype": source.dtype,
        "transformers_version": LAYOUT_OF,
    }
    # Their SA and LSA may have biases where ours have none; theirs then begin at zero.
    return config | own_keys(source), source.tensors


def own_keys(source: Source) -> dict[str, Any]:
    """Our own keys, which the others ignore; where a file had none but N, then that."""
    if source.ours:
        return {"drafter": source.ours}
    return {"drafter": {"method": "moa", "tli": source.tli}} if source.tli else {}


def _eagle(source: Source, drafter: EagleDrafter) -> Files:
    sizes, theirs = drafter.net.config, target_keys(source.target)
    if sizes.o_bias or sizes.heads * sizes.head_dim != source.target.config.hidden_size:
        raise UserError(
            f"{source.name} has a bias after its attention, or heads that are not its width "
            "together: SafeAILab's code can hold neither."
        )
    # SGLang's class has a bias where it joins embedding and feature, vLLM's has none.
    architecture = "LlamaForCausalLMEagle" if sizes.fc_bias else "EagleLlamaForCausalLM"
    dropped = {"attention_bias", "attention_dropout", "head_dim", "mlp_bias", "pretraining_tp"}
    config = {
        **{key: value for key, value in theirs.items() if key not in dropped},
        **eagle_keys(sizes),
        "architectures": [architecture],
        "rms_norm_eps": sizes.eps,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": source.dtype,
        "transformers_version": LAYOUT_OF,
    }
    if sizes.qkv_bias:
        config["qkv_bias"] = True
    return config | own_keys(source), embedded(source)


def embedded(source: Source) -> dict[str, Tensor]:
    """Tensors with a copy of the target's embeddings, which SafeAILab's head brings along."""
    weight = source.embedding
    if weight is None:
        dtype = next(iter(source.tensors.values())).dtype
        whole = source.target.embed.weight.detach()
        weight = (embeddings_of(source.place) if whole.is_meta else whole).to("cpu", dtype)
    return source.tensors | {"embed_tokens.weight": weight.contiguous()}
