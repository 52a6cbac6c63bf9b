"""The target reads, verifies and keeps as transformers does, node by node, or is refused."""

import math
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from moa_core.decoding.tree import DraftTree
from moa_core.errors import UserError
from moa_core.model.layers import Rope
from moa_core.model.target import Observation, Target
from tests.models import BUSH as TREE
from tests.models import FAMILIES, SHAPES, YARN, lossless, tiny_target
from tests.properties import above

PROMPT = [5, 9, 33, 7, 21]
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
TARGETS = {name: SHAPES[name] for name in FAMILIES} | {"yarn": {"rope_parameters": YARN}}


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return tiny_target(**TARGETS[request.param])


@torch.inference_mode()
def plain_logits(target: Target, ids: list[int]) -> Tensor:
    return target.model(input_ids=torch.tensor([ids])).logits[0]


@torch.inference_mode()
def check_learnt(target: Target, ids: list[int], seen: Observation) -> None:
    model = target.model
    output = model(input_ids=torch.tensor([ids]), output_hidden_states=True, use_cache=True)
    here = slice(seen.start, seen.start + len(seen.ids))
    assert list(seen.ids) == ids[here]
    torch.testing.assert_close(seen.hidden, output.hidden_states[-1][0, here], **CLOSE)
    found = seen.keys_values()
    for layer, stored in enumerate(output.past_key_values.layers):
        torch.testing.assert_close(found[layer, 0], stored.keys[0, :, here], **CLOSE)
        torch.testing.assert_close(found[layer, 1], stored.values[0, :, here], **CLOSE)
    assert torch.equal(seen.keys_values(last=2), found[-2:])


@torch.inference_mode()
@pytest.mark.parametrize("leaf", [0, 2, 4, 6, 7])
def test_a_tree_is_verified_and_kept_as_if_written_token_by_token(target, leaf):
    run = target.fork()
    logits, seen = run.prefill(PROMPT, 64)
    torch.testing.assert_close(logits, plain_logits(target, PROMPT)[-1], **CLOSE)
    check_learnt(target, PROMPT, seen)
    text = list(PROMPT)
    for _ in range(2):  # the second time behind a cache that was closed up
        logits = run.verify(TREE)
        for node in range(len(TREE)):
            ids = [*text, *(TREE.tokens[each] for each in (0, *above(TREE, node)))]
            torch.testing.assert_close(logits[node], plain_logits(target, ids)[-1], **CLOSE)
        seen = run.keep(above(TREE, leaf))
        assert seen.start == len(text)
        text += [TREE.tokens[each] for each in (0, *above(TREE, leaf))]
        check_learnt(target, text, seen)


@torch.inference_mode()
@pytest.mark.parametrize("count", [1, 2])  # of two, the second is hidden from the first
def test_the_shortest_prompts_are_read_like_others(target, count):
    logits, seen = target.fork().prefill(PROMPT[:count], 64)
    torch.testing.assert_close(logits, plain_logits(target, PROMPT[:count])[-1], **CLOSE)
    check_learnt(target, PROMPT[:count], seen)


@pytest.mark.parametrize(
    ("sizes", "context"),
    [
        ({}, 256),
        ({"family": "mistral", "sliding_window": None}, 256),
        ({"family": "mistral", "sliding_window": 64}, 64),
        ({"family": "mistral", "sliding_window": 4096}, 256),
        ({"family": "qwen2", "sliding_window": 64}, 256),
        ({"family": "qwen2", "sliding_window": 64, "use_sliding_window": True,
          "max_window_layers": 1}, 64),
        ({"family": "qwen2", "sliding_window": 64, "use_sliding_window": True,
          "max_window_layers": 3}, 256),
    ],
)  # fmt: skip
def test_the_context_ends_where_a_window_would_start_to_slide(sizes, context):
    assert tiny_target(**sizes).context == context


@torch.inference_mode()
@pytest.mark.parametrize(
    "sizes",
    [
        {"rms_norm_eps": 0.3},
        {"hidden_act": "gelu"},
        {"hidden_act": "gelu", "attn_implementation": "eager"},
    ],
)
def test_layers_are_what_the_config_says(sizes):
    """But eager attention, which would take the boolean tree mask for numbers in torch's layers."""
    run = tiny_target(**sizes).fork()
    logits, _ = run.prefill(PROMPT, 32)
    torch.testing.assert_close(logits, plain_logits(run, PROMPT)[-1], **CLOSE)
    ids = [*PROMPT, *(TREE.tokens[node] for node in (0, 2, 6))]
    torch.testing.assert_close(run.verify(TREE)[6], plain_logits(run, ids)[-1], **CLOSE)
    pair = run.verify(DraftTree((11, 3), (-1, 0), (0, 1), (0.0, 0.0)))
    torch.testing.assert_close(pair[1], plain_logits(run, [*PROMPT, 11, 3])[-1], **CLOSE)
    run.taps = (1, 0)  # also the inputs of these layers, in their order
    _, seen = run.prefill(PROMPT, 32)
    states = run.model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    tapped = torch.cat([states[place][0] for place in (1, 0, -1)], -1)
    torch.testing.assert_close(seen.hidden, tapped, **CLOSE)
    tail = run.read_layers(states[1], torch.arange(5)[None], None, run.tail_cache(2, 8), 2)
    torch.testing.assert_close(tail, states[-1], **CLOSE)  # after the last two layers


@torch.inference_mode()
@pytest.mark.parametrize("bias", [False, True])
def test_a_head_of_some_words_gives_what_the_whole_head_gives_them(bias):
    target, words, hidden = tiny_target(), torch.tensor([3, 33, 7]), torch.randn(2, 5, 32)
    target.head = torch.nn.Linear(32, 64, bias=bias)
    torch.testing.assert_close(target.head_of(words)(hidden), target.head(hidden)[..., words])


def test_positions_reach_as_far_as_was_reserved():
    rope, like = Rope(8, {"rope_type": "default", "rope_theta": 1e4}, 4096), torch.empty(0)
    for count in (1025, 1026):  # the table begins with 1,024
        rope.reserve(count)
        cos, _ = rope.span(count - 1, count, like)
        assert cos[0, 0, 0, 0] == pytest.approx(math.cos(count - 1), abs=1e-4)


def test_a_table_that_another_thread_outgrows_is_not_used_again(monkeypatch):
    rope, like = Rope(8, {"rope_type": "default", "rope_theta": 1e4}, 4096), torch.empty(0)

    class Overtaken(dict[Any, Any]):
        def __setitem__(self, key: Any, found: Any) -> None:
            rope.reserve(1025)  # as another thread does just before a table is kept
            super().__setitem__(key, found)

    monkeypatch.setattr(rope, "_tables", Overtaken())
    rope.span(0, 1, like)
    assert rope.span(1024, 1025, like)[0].shape == (1, 1, 1, 8)


def test_weights_are_held_once_and_saved_as_they_were_after_decoding(tmp_path):
    target = tiny_target()
    ours, theirs = target.own[1][-1], target.layers[-1]
    assert ours.self_attn.q_proj.weight.data_ptr() == theirs.self_attn.q_proj.weight.data_ptr()
    expected = {name: weight.clone() for name, weight in target.model.state_dict().items()}
    target.fork().prefill([1, 2], 8)
    target.model.save_pretrained(tmp_path)
    found = load_file(tmp_path / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


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
    for method in ("moa-n0", "moa-n2"):
        lossless(target, method, PROMPT, 20)


def test_an_unknown_model_that_does_more_than_its_layers_is_found_out():
    model = model_of("Olmo2Config")

    def louder(own: Any, given: Any, output: Any) -> None:
        output.logits *= 1.5

    model.register_forward_hook(louder)
    with pytest.raises(UserError, match=r"type olmo2 .* its logits are then 33% off"):
        Target(model)


def test_an_unknown_model_whose_layers_want_more_is_refused(monkeypatch):
    model = model_of("Olmo2Config")
    layer, forward = model.model.layers[1], model.model.layers[1].forward
    monkeypatch.setattr(layer, "forward", lambda *given, more, **named: forward(*given, **named))
    with pytest.raises(UserError, match="its layers do not take what they are given"):
        Target(model)
