"""Families of targets: refused by what they have, or read as transformers reads them."""

from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

from moa_core.errors import UserError
from moa_core.model.target import Target
from tests.models import plain_greedy, traced

SIZES = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip


def model_of(config: str, **more: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(getattr(transformers, config)(**SIZES | more)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6 if weight.ndim > 1 else 1)  # far from ties
    return model.requires_grad_(False)


@pytest.mark.parametrize(
    ("config", "more", "words"),
    [
        ("Gemma2Config", {"head_dim": 8}, r"it caps its logits \(`final_logit_softcapping`\)"),
        ("Gemma3TextConfig", {"head_dim": 8}, "its layers differ in their rotary position"),
        ("PhiConfig", {}, r"rotates only a part of each head \(`partial_rotary_factor`\)"),
        ("CohereConfig", {}, r"it scales its logits \(`logit_scale`\)"),
        ("GraniteConfig", {"embedding_multiplier": 12.0}, "it scales its embeddings"),
        ("GPT2Config", {}, "it has no rotary position embedding"),
        ("Starcoder2Config", {}, r"its norms are not RMSNorm \(no `rms_norm_eps`\)"),
        ("MambaConfig", {}, "it has layers of linear attention"),
        ("DeepseekV3Config", {}, r"it caches compressed K and V \(`kv_lora_rank`\)"),
        ("GptOssConfig", {"head_dim": 8}, "its attention takes no mask of a tree"),
        ("LlamaConfig", {"rope_parameters": {
            "rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0,
        }}, "its positions depend on the text's length"),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_run_layer_by_layer_is_refused_by_what_it_has(config, more, words):
    model = model_of(config, **more)
    with pytest.raises(UserError, match=f"type {model.config.model_type} .* here: .*{words}") as e:
        Target(model)
    assert "Llama, Mistral, Qwen2, Qwen3" in str(e.value) and "\n" not in str(e.value)


def test_a_missing_part_is_named():
    model = model_of("LlamaConfig")
    del model.model.norm
    with pytest.raises(UserError, match=r"its decoder has no final norm \(`norm`\)"):
        Target(model)
    with pytest.raises(UserError, match="it has no language model head"):
        Target(model_of("LlamaConfig").model)


@pytest.mark.parametrize("config", ["Phi3Config", "Olmo2Config", "GemmaConfig", "MixtralConfig"])
def test_families_of_the_same_form_are_read_rightly(config):
    target = Target(model_of(config, **({"head_dim": 8} if config == "GemmaConfig" else {})))
    prompt = [5, 9, 33, 7, 21]
    for method in ("moa-n0", "moa-n2"):
        trace = traced(target, method, prompt, max_new_tokens=20)
        assert trace.output_ids == plain_greedy(target, prompt, 20)


def test_an_unknown_model_that_does_more_than_its_layers_is_found_out(monkeypatch):
    model = model_of("Olmo2Config")
    forward = model.forward

    def louder(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        output.logits = output.logits * 1.5
        return output

    monkeypatch.setattr(model, "forward", louder)
    with pytest.raises(UserError, match=r"type olmo2 .* its logits are then 33% off"):
        Target(model)


def test_an_unknown_model_whose_layers_want_more_is_refused(monkeypatch):
    model = model_of("Olmo2Config")
    forward = model.model.layers[1].forward

    def wanting(*args: Any, more: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.model.layers[1], "forward", wanting)
    with pytest.raises(UserError, match="its layers do not take what they are given"):
        Target(model)
