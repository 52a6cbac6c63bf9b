"""What MoA's parts may depend on; its sizes; and that LSA computes each token of a text once."""

import pytest
import torch

from moa_core.decoding.trace import Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters import moa
from moa_core.drafters.moa import MoAConfig, MoADrafter, Sizes
from moa_core.errors import UserError
from moa_core.model.cache import token_vectors
from moa_core.train.drafters import fresh
from tests.models import tiny_target, traced, useful
from tests.released import recorded

PROMPT = [(i * i + 3) % 60 for i in range(21)]
SHORT = [3, 7, 1, 9, 4, 2, 6]


@torch.inference_mode()
def server_outputs(method: str, ids: list[int]) -> dict[str, torch.Tensor]:
    target = tiny_target(layers=4)
    drafter, run = useful(method, target), target.fork()
    drafter.open(run, 64)
    return drafter.server_outputs(run.prefill(ids, 64)[1])


def test_little_travels_from_the_server_alike_from_chunks(monkeypatch):
    """2 * G_ca * d numbers a token, and for N > 0 the K and V of N layers."""
    target = tiny_target(layers=4)
    memory = {
        "memory": (1, 2, MoADrafter.fresh_sizes(target).ca.kv_heads, len(PROMPT), target.head_dim)
    }
    tail = {"tail": (2, 2, target.kv_heads, len(PROMPT), target.head_dim)}
    for method, shapes in (("moa-n0", memory), ("moa-n2", memory | tail)):
        half = server_outputs(method, PROMPT)
        assert {name: tuple(tensor.shape) for name, tensor in half.items()} == shapes
        assert useful(method, target).output_shapes(target, len(PROMPT)) == shapes
        with monkeypatch.context() as patch:  # long prompts are condensed in chunks
            patch.setattr(moa, "LSA_CHUNK", 4)
            torch.testing.assert_close(server_outputs(method, PROMPT), half)


def test_scaled_rope_goes_into_self_attention_alone():
    scaled = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
    drafter = fresh("moa-n0", tiny_target(rope_parameters=scaled), 0)
    plain = fresh("moa-n0", tiny_target(), 0)
    places, like = torch.tensor([[8, 40]]), torch.zeros(1)
    assert torch.equal(drafter.ca_rope(places, like)[0], plain.ca_rope(places, like)[0])
    # A factor of 4 turns by a quarter.
    found, expected = drafter.sa_rope(places, like)[0], plain.sa_rope(places // 4, like)[0]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("heads", "head_dim"), [(3, 8), (4, 7), (16, 1)])
def test_lsa_heads_that_do_not_divide_the_width_are_refused(heads, head_dim):
    one = Sizes(4, 1, 8, 24)
    with pytest.raises(UserError, match=f"LSA's width 32 cannot be split into {heads} heads"):
        MoAConfig(32, 32, one, one, Sizes(heads, 1, head_dim, 24), 1e-6)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"), [(5, 1, 8), (14, 2, 64), (6, 3, 10), (7, 7, 2), (1, 1, 2)]
)
def test_a_fresh_drafter_finds_lsa_heads_for_any_target(heads, kv_heads, head_dim):
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim}
    target = tiny_target(hidden_size=heads * 2, **sizes)
    config = MoADrafter.fresh_sizes(target)
    assert config.lsa is not None and 1 <= config.lsa.heads <= heads
    assert config.lsa.heads * config.lsa.head_dim == target.kv_width
    for sizes in (config.sa, config.ca, config.lsa):
        assert sizes.heads % sizes.kv_heads == 0 and sizes.head_dim % 2 == 0


@pytest.mark.parametrize("tli", [0, 1, 3])
@pytest.mark.parametrize("chunk", [512, 4])
def test_each_verified_token_goes_through_lsa_once_and_in_order(monkeypatch, tli, chunk):
    monkeypatch.setattr(moa, "LSA_CHUNK", chunk)
    target = tiny_target()
    drafter = useful(f"moa-n{tli}", target)
    monkeypatch.setattr(drafter, "fork", lambda: drafter)
    calls, seen, half = recorded(monkeypatch, drafter.net, "memory"), [], drafter.server_outputs
    monkeypatch.setattr(drafter, "server_outputs", lambda one: seen.append(one) or half(one))
    trace = traced(target, drafter, SHORT, max_new_tokens=60, tree=TreeSettings(3, 2, 5))
    assert max(trace.accepted_lengths) > 1 and len(trace.of(Verified)) > 5
    # What the last verification taught is not observed any more: nothing is drafted after it.
    text = [*SHORT, *trace.output_ids]
    assert drafter.ids == text[: len(drafter.ids)]
    assert len(text) - len(drafter.ids) <= 3 + 2
    vectors = torch.cat([given for given, _ in calls])  # [n, L, W]
    assert len(vectors) == len(drafter.ids), "a token was computed twice, or never"
    assert max(len(given) for given, _ in calls) <= max(chunk, len(SHORT))
    with torch.inference_mode():
        assert torch.equal(vectors, token_vectors(seen[-1].cache.read(0, len(vectors))))
