"""The weights that are shown are those that the drafter's own layers use."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters import base
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.attention import ca_weights, look, lsa_weights
from moa_core.model.layers import DecoderLayer
from moa_core.model.target import Target
from moa_core.train.init import fresh
from tests.models import tiny_target, useful

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


def uneven(weights: Tensor) -> bool:
    """Whether weights are anything but the same everywhere."""
    return bool(weights.std(-1).min() > 1e-3)


@pytest.mark.parametrize("pool", POOLS)
@torch.inference_mode()
def test_memory_follows_from_the_weights_over_layers(pool):
    _, drafter = attentive(0, pool)
    net, rope = drafter.net, drafter.layer_rope
    vectors = torch.randn(5, 4, net.config.kv_width)
    weights = lsa_weights(net, vectors, rope)
    rows = {"mean": 4, "last": 1}[pool]
    assert weights.shape == (5, net.config.lsa.heads, rows, 4) and uneven(weights)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    places = torch.arange(4)[None]
    _, values = net.layer_self_attention.memorise(vectors, rope(places, vectors))
    outputs = output_from(net.layer_self_attention, vectors[:, 4 - rows :], weights, values)
    torch.testing.assert_close(net.Ekv2E(outputs.mean(1)), net.memory(vectors, rope))


@pytest.mark.parametrize("tli", [0, 1])
@pytest.mark.parametrize("pool", POOLS)
@torch.inference_mode()
def test_the_root_s_logits_in_decoding_follow_from_the_weights_over_the_text(
    tli, pool, monkeypatch
):
    target, drafter = attentive(tli, pool)
    seen: list[Tensor] = []
    grow = base.grow
    monkeypatch.setattr(base, "grow", lambda *given: seen.append(given[1]) or grow(*given))
    trace = Trace()
    for _ in trace.record(decode(target, drafter, PROMPT, Settings(12, TreeSettings(3, 2, 6)))):
        pass
    text = [*PROMPT, *trace.output_ids]
    drafted = trace.of(Drafted)
    assert len(drafted) == len(seen) > 2
    for cycle, logits in zip(drafted, seen, strict=True):
        ids = text[: cycle.position + 1]
        torch.testing.assert_close(logits_from_weights(target, drafter, ids), logits)


def logits_from_weights(target: Target, drafter: MoADrafter, ids: list[int]) -> Tensor:
    """The drafter's logits [V] after the last id, through `ca_weights` in place of CA."""
    run, drafter, known = target.fork(), drafter.fork(), len(ids) - 1
    drafter.open(run, len(ids) + 1)
    _, observed = run.prefill(ids[:-1], len(ids))
    drafter.observe(observed.ids, drafter.server_half(observed))
    query = drafter.query(ids[-1])
    weights = ca_weights(drafter, query)
    assert weights.shape == (drafter.net.config.ca.heads, known) and uneven(weights)
    torch.testing.assert_close(weights, look(target, drafter, ids).text)
    values = drafter.memory.read(0, known)[0][1:]
    hidden = output_from(drafter.net.cross_attention, query, weights[None, :, None], values)
    if drafter.tail is not None:
        places = torch.full((1, 1), known)
        hidden = run.run_layers(hidden, places, None, drafter.tail, last=drafter.tli)
    return run.head(hidden)[0, 0]


def test_long_texts_are_read_in_chunks_alike(monkeypatch):
    target, drafter = attentive(0, "mean")
    whole = look(target, drafter, PROMPT)
    monkeypatch.setattr("moa_core.model.attention.LSA_CHUNK", 4)
    torch.testing.assert_close(look(target, drafter, PROMPT).layers, whole.layers)


@pytest.mark.parametrize("ids", [[], [5], [5, 70_000, 3], [5, 3, 70_000]])
def test_ids_that_cannot_be_read_get_a_sentence(ids):
    target, drafter = attentive(0)
    with pytest.raises(UserError):
        look(target, drafter, ids)


def test_other_methods_get_a_sentence():
    target = tiny_target()
    with pytest.raises(UserError, match="neither LSA nor CA"):
        look(target, fresh("eagle2", target, 0), PROMPT)
