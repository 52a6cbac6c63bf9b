"""The weights that are shown are those that the drafter's own layers use; layers in other forms."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters import base
from moa_core.drafters.attention import ca_weights, look, lsa_weights
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.layers import DecoderLayer, RMSNorm, grouped_attention
from moa_core.model.target import Target
from moa_core.train.drafters import fresh
from tests.models import having_read, tiny_target, traced, useful

PROMPT = [(i * i + 3) % 60 for i in range(21)]
POOLS = ("mean", "last")


def attentive(tli: int, pool: str = "last") -> tuple[Target, MoADrafter]:
    """A tiny target and a drafter whose attention is far from even; fresh ones hardly choose."""
    target = tiny_target(layers=4)
    drafter = useful(f"moa-n{tli}", target)
    drafter.net.config = replace(drafter.net.config, pool=pool)
    with torch.no_grad():
        for layer in (drafter.net.layer_self_attention, drafter.net.cross_attention):
            layer.self_attn.q_proj.weight.normal_(std=1.0)
            layer.self_attn.k_proj.weight.normal_(std=1.0)
            layer.self_attn.o_proj.weight.normal_(std=0.1)
    return target, drafter


def output_from(layer: DecoderLayer, hidden: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """The layer's output by hand: weights [B, H, n, m] over values [B, G, m, d], and the rest."""
    values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
    attended = layer.self_attn.o_proj((weights @ values).transpose(1, 2).flatten(2))
    hidden = hidden + attended
    return hidden + layer.mlp(layer.post_attention_layernorm(hidden))


@pytest.mark.parametrize("pool", POOLS)
@torch.inference_mode()
def test_memory_follows_from_the_weights_over_layers(pool):
    _, drafter = attentive(0, pool)
    net, rope = drafter.net, drafter.layer_rope
    vectors = torch.randn(5, 4, net.config.kv_width)
    weights = lsa_weights(net, vectors, rope)
    rows = {"mean": 4, "last": 1}[pool]
    assert weights.shape == (5, net.config.lsa.heads, rows, 4) and weights.std(-1).min() > 1e-3
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    places = torch.arange(4)[None]
    _, values = net.layer_self_attention.memorise(vectors, rope(places, vectors))
    outputs = output_from(net.layer_self_attention, vectors[:, 4 - rows :], weights, values)
    torch.testing.assert_close(net.Ekv2E(outputs.mean(1)), net.memory(vectors, rope))


@pytest.mark.parametrize("tli", [0, 1])
@pytest.mark.parametrize("pool", POOLS)
@torch.inference_mode()
def test_the_root_s_logits_follow_from_the_weights_over_the_text(tli, pool, monkeypatch):
    target, drafter = attentive(tli, pool)
    seen, grow = list[Tensor](), base.grow
    monkeypatch.setattr(base, "grow", lambda *given: seen.append(given[1]) or grow(*given))
    trace = traced(target, drafter, PROMPT, max_new_tokens=12, tree=TreeSettings(3, 2, 6))
    text, drafted = [*PROMPT, *trace.output_ids], trace.of(Drafted)
    assert len(drafted) == len(seen) > 2
    for cycle, logits in zip(drafted, seen, strict=True):
        ids = text[: cycle.position + 1]
        torch.testing.assert_close(logits_from_weights(target, drafter, ids), logits)


def logits_from_weights(target: Target, drafter: MoADrafter, ids: list[int]) -> Tensor:
    """The drafter's logits [V] after the last id, through `ca_weights` in place of CA."""
    (drafter, _), known = having_read(drafter, target, ids[:-1]), len(ids) - 1
    query = drafter.query(ids[-1])
    weights = ca_weights(drafter, query)
    assert weights.shape == (drafter.net.config.ca.heads, known) and weights.std(-1).min() > 1e-3
    torch.testing.assert_close(weights, look(target, drafter, ids).text)
    values = drafter.memory.read(0, known)[0][1:]
    hidden = output_from(drafter.net.cross_attention, query, weights[None, :, None], values)
    if drafter.tail is not None:
        places = torch.full((1, 1), known)
        hidden = target.run_layers(hidden, places, None, drafter.tail, last=drafter.tli)
    return target.head(hidden)[0, 0]


def test_long_texts_are_read_in_chunks_alike(monkeypatch):
    target, drafter = attentive(0, "mean")
    whole = look(target, drafter, PROMPT)
    monkeypatch.setattr("moa_core.drafters.attention.LSA_CHUNK", 4)
    torch.testing.assert_close(look(target, drafter, PROMPT).layers, whole.layers)


@pytest.mark.parametrize(
    ("method", "ids", "words"),
    [
        *(("moa-n0", ids, "prompt") for ids in ([], [5], [5, 70_000, 3], [5, 3, 70_000])),
        ("eagle2", PROMPT, "neither LSA nor CA"),
    ],
)
def test_what_cannot_be_looked_at_gets_a_sentence(method, ids, words):
    target = tiny_target()
    with pytest.raises(UserError, match=words):
        look(target, fresh(method, target, 0), ids)


def test_attention_for_gpus_is_the_same():
    torch.manual_seed(0)
    queries, keys, values = torch.randn(1, 6, 4, 8), *torch.randn(2, 1, 3, 9, 8)
    mask = (torch.rand(1, 1, 4, 9) < 0.5).index_fill_(-1, torch.tensor(0), True)
    expected = scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=True)
    torch.testing.assert_close(grouped_attention(queries, keys, values, mask), expected)


def test_norms_in_half_precision_train_as_they_decode():
    torch.manual_seed(0)
    norm, x = RMSNorm(8, 0.5).to(torch.bfloat16), torch.randn(5, 8).to(torch.bfloat16)
    with torch.no_grad():
        norm.weight.normal_()
        expected = norm(x)
    torch.testing.assert_close(norm(x).detach(), expected, atol=1e-2, rtol=2e-2)
