"""The layout that the authors' patched vLLM (0.6.3) serves, and in which they published weights.

Facts from huawei-noah/HEBO, branch mixture-of-attentions: vllm/convert_checkpoint.py and
vllm/vllm/{transformers_utils/configs,model_executor/models}/moa_spec.py.
"""

from __future__ import annotations

from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.export.authors import Files, authors_files
from moa_core.export.source import Source

DROPPED = (
    "num_hidden_layers", "_name_or_path", "attention_bias", "attention_dropout", "bos_token_id",
    "eos_token_id", "initializer_range", "intermediate_size", "pretraining_tp",
    "tie_word_embeddings", "use_cache", "num_key_value_heads",
)  # fmt: skip


def vllm_moa_files(source: Source) -> Files:
    """Config and tensors in the published layout. UserError for what that vLLM cannot run."""
    drafter = source.drafter
    if not isinstance(drafter, MoADrafter):
        raise UserError(f"{source.name} is {source.kind}: vllm-moa is for MoA alone.")
    if drafter.tli:
        raise UserError(
            f"{source.name} drafts with N = {drafter.tli}, and the authors' vLLM knows no TLI: "
            "only N = 0 can be exported to it."
        )
    config, tensors = authors_files(source)
    sizes = drafter.net.config
    assert sizes.sa and sizes.lsa  # or authors_files had refused
    if sizes.sa.kv_heads != sizes.ca.kv_heads:
        raise UserError(
            f"{source.name} has {sizes.sa.kv_heads} kv heads in SA and {sizes.ca.kv_heads} in CA: "
            "the authors' vLLM keeps both in one cache and wants them equal."
        )
    if sizes.qkv_bias or sizes.o_bias or sizes.mlp_bias:
        raise UserError(f"{source.name} has biases in SA, which the authors' vLLM leaves out.")
    kept = {key: value for key, value in config.items() if key not in DROPPED}
    kept |= {
        "architectures": ["MOASpecModel"],
        "model_type": "moa_spec",
        "kv_hidden_size": sizes.kv_width,
        "disable_LSA": False,
    }
    parts = (
        ("self_attention", sizes.sa), ("cross_attention", sizes.ca),
        ("layer_self_attention", sizes.lsa),
    )  # fmt: skip
    for prefix, part in parts:
        kept[f"{prefix}_num_key_value_heads"] = part.kv_heads
        kept[f"{prefix}_intermediate_size"] = part.inner
    return kept, tensors
