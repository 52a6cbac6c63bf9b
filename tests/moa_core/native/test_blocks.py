"""Compiled kernels say what torch says, for every shape that they take, and leave it the others."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from moa_core.cache import KVCache
from moa_core.drafters.glide import GlideConfig, GlideNet
from moa_core.drafters.moa import MoADrafter
from moa_core.layers import DecoderLayer, Rope, for_drafts, tree_mask
from moa_core.native import kernels as source
from moa_core.native.blocks import ROWS, Norm, Product, best, kernels_for
from moa_core.native.packing import LARGEST, TILE, begin_run
from moa_core.native.switch import replaced, switched
from moa_core.norms import RMSNorm
from tests.moa_core.native.shared import Calls, round_weights
from tests.models import tiny_target, useful

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
CPU = torch.device("cpu")
ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all biases": {"qkv_bias": True, "o_bias": True, "mlp_bias": True},
    "no input norm": {"input_norm": False},
    "every head its own keys": {"kv_heads": 4},
    "one head of keys": {"kv_heads": 1},
    "wider than a tile, no multiple of four": {"inner": TILE + 33},
    "one number wide within": {"inner": 1},
}


def layer_of(width: int = 32, heads: int = 4, **sizes: Any) -> DecoderLayer:
    """For drafts, with weights that eight bits hold."""
    torch.manual_seed(0)
    sizes = {"kv_heads": 2, "inner": 44, **sizes}
    layer = DecoderLayer(width, heads, sizes.pop("kv_heads"), sizes.pop("inner"), **sizes)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
    round_weights(layer)
    for_drafts(layer)
    return layer.eval().requires_grad_(False)


@pytest.fixture
def calls(kernels: ModuleType) -> Any:
    """Which kernels a test calls, by name."""
    found = Calls(kernels)
    with replaced(lambda _: found), torch.inference_mode():
        yield found.names


def grown(layer: DecoderLayer, torch_between: bool = False) -> list[Tensor]:
    """A text of three tokens, a tree of three levels below it, back to the text, and two levels
    that differ: what the layer says each time."""
    sizes = layer.self_attn
    cache = KVCache([CPU], sizes.kv_heads, sizes.head_dim, 40, torch.float32)
    rope, said = Rope(sizes.head_dim, ROPE, 64), []

    def read(count: int, start: int, stop: int, mask: Tensor | None) -> None:
        x = torch.randn(1, count, 32)
        said.append(layer(x, rope.span(start, stop, x), mask=mask, cache=cache))
        cache.advance(count)

    torch.manual_seed(1)
    read(1, 0, 1, None)
    read(2, 1, 3, tree_mask(torch.ones(2, 2, dtype=torch.bool).tril(), 1))
    seen = torch.eye(4, dtype=torch.bool)
    for level, parents in enumerate([[0, 0, 1, 3], [2, 2, 0]]):
        read(len(seen), 3 + level, 4 + level, tree_mask(seen, 3))
        seen = torch.cat([seen[parents], torch.eye(len(parents), dtype=torch.bool)], 1)
    cache.truncate(3)
    if torch_between:
        with switched(False):
            read(2, 3, 4, tree_mask(torch.eye(2, dtype=torch.bool), 3))
        cache.truncate(3)
        cache.append(torch.randn(1, 2, sizes.kv_heads, 1, sizes.head_dim))
    read(3, 3, 4, tree_mask(torch.eye(3, dtype=torch.bool), cache.length))
    return said


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_over_itself_through_a_cache(calls: list[str], name: str, between: bool) -> None:
    layer = layer_of(**LAYERS[name])
    quick = grown(layer, between)
    assert set(calls) == {"layer_over_itself"}
    with switched(False):
        expected = grown(layer, between)
    for one, other in zip(quick, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, ROWS])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_over_a_memory(calls: list[str], name: str, rows: int) -> None:
    layer = layer_of(**LAYERS[name])
    sizes, rope = layer.self_attn, Rope(layer.self_attn.head_dim, ROPE, 64)
    cache = KVCache([CPU], sizes.kv_heads, sizes.head_dim, 300, torch.float32)
    for known in (3, 280):  # more than one block of slots
        cache.append(torch.randn(1, 2, sizes.kv_heads, known - cache.length, sizes.head_dim))
        keys, values = cache.read(0, known)[0].unsqueeze(1).unbind()
        x = torch.randn(1, rows, 32)
        quick = layer.attend(x, rope.span(5, 6, x), keys, values, held=cache.held(0))
        plain = layer.attend(x, rope.span(5, 6, x), keys, values)  # without a cache: torch
        torch.testing.assert_close(quick, plain, **CLOSE)
    assert calls == 2 * ["layer_over_memory"]


@pytest.mark.parametrize("tokens", [1, 2, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_lsa_and_what_ca_asks_of_it(calls: list[str], seed: int, tokens: int) -> None:
    with torch.inference_mode(False), torch.no_grad():
        target = tiny_target(seed, layers=7)
        net = useful("moa-n1", target).net
        net.config = replace(net.config, pool="last")
        for weight in net.parameters():
            weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
    round_weights(net)
    drafter = MoADrafter(net, target, 1)
    drafter.open(target, 40)
    _, seen = target.prefill([5, 9, 33, 7, 21, 40, 11, 3], 40)
    part = seen.part(2, 2 + tokens)
    quick = drafter.server_half(part)
    assert calls == ["remember"]
    with switched(False):
        plain = drafter.server_half(part)
    assert quick.keys() == plain.keys() == {"memory", "tail"}
    for name, one in quick.items():
        assert one.shape == plain[name].shape
        torch.testing.assert_close(one, plain[name], **CLOSE)


def test_what_is_not_of_llamas_form_is_left_to_torch(calls: list[str]) -> None:
    grown(layer_of(head_norms=True))  # norms within heads
    odd = DecoderLayer(30, 3, 3, 8)  # thirty numbers are no multiple of four
    for_drafts(odd)
    cache, x, rope = (
        KVCache([CPU], 3, 10, 4, torch.float32),
        torch.randn(1, 1, 30),
        Rope(10, ROPE, 8),
    )
    odd(x, rope.span(0, 1, x), cache=cache)
    wide = nn.Linear(2048, LARGEST // 2048 + 1)
    assert Product(wide)(torch.randn(1, 2048)) is None
    assert not calls
    with torch.inference_mode(False):
        assert kernels_for(torch.randn(1, 4)) is None  # somebody may want gradients
    assert kernels_for(torch.randn(ROWS + 1, 4)) is None
    assert kernels_for(torch.randn(1, 4).bfloat16()) is None
    assert kernels_for(torch.randn(1, 4)) is not None


@pytest.mark.parametrize("bias", [False, True])
def test_a_product_and_a_norm(calls: list[str], bias: bool) -> None:
    linear, norm, x = nn.Linear(12, TILE + 5, bias), RMSNorm(12, 1e-5), torch.randn(2, 3, 12)
    round_weights(linear)
    torch.testing.assert_close(Product(linear)(x), linear(x), **CLOSE)
    with torch.no_grad():
        norm.weight.normal_(1, 0.3)
    for size in (1.0, 3e-3):  # where eps is nothing, and much
        torch.testing.assert_close(Norm(norm)(size * x), norm(size * x), **CLOSE)


def test_eight_bits_are_near_what_they_stand_for(calls: list[str]) -> None:
    linear, x = nn.Linear(256, 300), torch.randn(4, 256)
    linear.weight.data[7] = 0  # an output of nothing
    found, exact = Product(linear)(x), linear(x)
    assert ((found - exact).norm() / exact.norm()) < 0.01
    torch.testing.assert_close(found[:, 7], exact[:, 7])


def test_other_weights_are_seen_from_the_next_run_on(calls: list[str]) -> None:
    with torch.inference_mode(False):
        linear, x = nn.Linear(8, 8, bias=False), torch.ones(1, 8)
    product = Product(linear)
    before = product(x)
    with torch.inference_mode(False), torch.no_grad():
        linear.weight.mul_(2)
    begin_run()
    torch.testing.assert_close(product(x), 2 * before)
    linear.weight = nn.Parameter(torch.zeros(8, 8))
    begin_run()
    assert not product(x).any()


@pytest.mark.parametrize("size", [3, 128, 129, 4096])
@pytest.mark.parametrize("count", [1, 3])
def test_the_most_probable_tokens(calls: list[str], size: int, count: int) -> None:
    logits = 5 * torch.randn(4, size)
    found = best(logits, count)
    assert found is not None and calls == ["best"]
    expected = torch.log_softmax(logits, -1).topk(count, -1)
    torch.testing.assert_close(found[0], expected.values, **CLOSE)
    assert torch.equal(found[1], expected.indices)


def test_logits_that_are_no_numbers_break_nothing(calls: list[str]) -> None:
    for value in (float("nan"), float("-inf"), float("inf")):
        _, ids = best(torch.full((1, 200), value), 3)
        assert ids.min() >= 0 and ids.max() < 200


def test_glides_layer(calls: list[str]) -> None:
    torch.manual_seed(0)
    net = GlideNet(GlideConfig(32, 4, 2, 8, 20, 1e-5))
    round_weights(net)
    for_drafts(net)
    seen, rope = KVCache([CPU], 2, 8, 16, torch.float32), Rope(8, ROPE, 64)
    seen.append(torch.randn(1, 2, 2, 5, 8))
    x, views = torch.randn(1, 1, 32), seen.read(0, 5)[0].unsqueeze(1).unbind()

    def said() -> Tensor:
        text = KVCache([CPU], 2, 8, 16, torch.float32)
        return net(x, rope.span(5, 6, x), *views, None, None, text, seen.held(0))

    quick = said()
    assert calls == ["layer_over_both"]
    with switched(False):
        torch.testing.assert_close(quick, said(), **CLOSE)


def test_matrices_are_laid_out_as_the_kernels_read_them() -> None:
    assert source.TILE == TILE
