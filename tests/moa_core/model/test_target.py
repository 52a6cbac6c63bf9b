"""The target reads, verifies and keeps as transformers does, node by node, or is refused."""

import math
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from moa_core.decoding.tree import DraftTree
from moa_core.errors import UserError
from moa_core.model.layers import Rope
from moa_core.model.target import Observation, Target, draft_precision, moved
from tests.models import BUSH as TREE
from tests.models import FAMILIES, SHAPES, YARN, tiny_target
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


def test_sizes_and_the_format_of_drafts_follow_the_config():
    own = tiny_target(family="qwen3", head_dim=12)
    assert (own.head_dim, own.kv_heads, own.kv_width) == (12, 2, 48)
    shared = tiny_target(hidden_size=48, num_attention_heads=6, num_key_value_heads=3)
    assert (shared.head_dim, shared.kv_heads, shared.kv_width) == (8, 3, 48)
    half = Target(moved(tiny_target().model, torch.bfloat16))
    drafters = [SimpleNamespace(precision=one) for one in ("float32", "int8", None)]
    assert [draft_precision(half, one) for one in drafters] == ["bfloat16", "int8", None]


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
    with pytest.raises(UserError, match="empty"):
        run.prefill([], 8)
    tail = run.read_layers(states[1], torch.arange(5)[None], None, run.tail_cache(2, 8), 2)
    torch.testing.assert_close(tail, states[-1], **CLOSE)  # after the last two layers


def test_positions_reach_as_far_as_was_reserved():
    rope, like = Rope(8, {"rope_type": "default", "rope_theta": 1e4}, 4096), torch.empty(0)
    for count in (1025, 1026):  # the table begins with 1,024
        rope.reserve(count)
        cos, _ = rope.span(count - 1, count, like)
        assert cos[0, 0, 0, 0] == pytest.approx(math.cos(count - 1), abs=1e-4)


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
