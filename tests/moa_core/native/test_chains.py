"""Compiled kernels say what torch says, for every shape that they take, and leave it the others."""

import copy
import hashlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from moa_core.drafters.glide import GlideConfig, GlideNet
from moa_core.drafters.moa import MoADrafter
from moa_core.model.cache import KVCache
from moa_core.model.layers import DecoderLayer, Rope, rows_mask
from moa_core.model.norms import RMSNorm
from moa_core.native import kernels as source
from moa_core.native import machine
from moa_core.native.blocks import best, kernels_for
from moa_core.native.chains import Chain, Joint, Layer, Norm, Product
from moa_core.native.packing import COLUMNS, LARGEST
from moa_core.native.switch import replaced, switched
from tests.moa_core.native.shared import Calls, round_weights
from tests.models import tiny_target, useful

CLOSE = {"atol": 4e-3, "rtol": 1e-3}  # numbers of 16 bits
CPU, ROWS = torch.device("cpu"), source.ROWS
ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all biases": {"qkv_bias": True, "o_bias": True, "mlp_bias": True},
    "no input norm": {"input_norm": False},
    "every head its own keys": {"kv_heads": 4},
    "one head of keys": {"kv_heads": 1},
    "wider than a tile, no multiple of four": {"inner": 256 + 33},
    "one number wide within": {"inner": 1},
}


def layer_of(width: int = 32, heads: int = 4, **sizes: Any) -> DecoderLayer:
    """With weights that eight bits hold."""
    torch.manual_seed(0)
    sizes = {"kv_heads": 2, "inner": 44, **sizes}
    layer = DecoderLayer(width, heads, sizes.pop("kv_heads"), sizes.pop("inner"), **sizes)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
    round_weights(layer)
    return layer.eval().requires_grad_(False)


@pytest.fixture
def calls(kernels: ModuleType) -> Any:
    """Which kernels a test calls, by name."""
    found = Calls(kernels)
    with replaced(lambda _: found), torch.inference_mode():
        yield found.names


def cache_of(layer: DecoderLayer, slots: int) -> KVCache:
    sizes = layer.self_attn
    return KVCache([CPU], sizes.kv_heads, sizes.head_dim, slots, torch.float32)


def grown(layer: DecoderLayer, quick: bool, torch_between: bool = False) -> list[Tensor]:
    """A text of three tokens, a tree of three levels below it, back to the text, and two levels
    that differ: what the layer says each time."""
    cache, rope, said = cache_of(layer, 40), Rope(layer.self_attn.head_dim, ROPE, 64), []
    chain = Chain("", Layer(layer).links(rope, cache))

    def read(count: int, start: int, seen: Tensor | None, quick: bool = quick) -> None:
        x, past = torch.randn(1, count, 32), cache.length
        if quick:
            assert chain.serves(count)
            said.append(chain(x, past, start, seen=seen))
        else:
            rotation = rope.span(start, start + (count if seen is None else 1), x)
            mask = rows_mask(count, past, seen, CPU)
            said.append(layer(x, rotation, mask=mask, cache=cache))
        cache.advance(count)

    torch.manual_seed(1)
    read(1, 0, None)
    read(2, 1, None)
    seen = torch.eye(4, dtype=torch.bool)
    for level, parents in enumerate([[0, 0, 1, 3], [2, 2, 0]]):
        read(len(seen), 3 + level, seen)
        seen = torch.cat([seen[parents], torch.eye(len(parents), dtype=torch.bool)], 1)
    cache.truncate(3)
    if torch_between:
        read(2, 3, torch.eye(2, dtype=torch.bool), quick=False)
        cache.truncate(3)
        cache.append(torch.randn(1, 2, layer.self_attn.kv_heads, 1, layer.self_attn.head_dim))
    read(3, 3, torch.eye(3, dtype=torch.bool))
    read(5, 6, None)
    return said


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_over_itself_through_a_cache(calls: list[str], name: str, between: bool) -> None:
    layer = layer_of(**LAYERS[name])
    quick, expected = grown(layer, True, between), grown(layer, False, between)
    assert set(calls) == {"chain"}
    for one, other in zip(quick, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, ROWS])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_over_a_memory(calls: list[str], name: str, rows: int) -> None:
    layer = layer_of(**LAYERS[name])
    sizes, rope, cache = layer.self_attn, Rope(layer.self_attn.head_dim, ROPE, 64), None
    cache = cache_of(layer, 300)
    chain = Chain("", Layer(layer, over_memory=True).links(rope, cache))
    for known in (3, 280):  # more than one block of slots
        cache.append(torch.randn(1, 2, sizes.kv_heads, known - cache.length, sizes.head_dim))
        keys, values = cache.read(0, known)[0].unsqueeze(1).unbind()
        x, seen = torch.randn(1, rows, 32), torch.eye(rows, dtype=torch.bool)
        quick = chain(x, position=5, memory=known, seen=seen)
        plain = layer.attend(x, rope.span(5, 6, x), keys, values)
        torch.testing.assert_close(quick, plain, **CLOSE)
    assert calls == 2 * ["chain"]


def test_layers_one_after_the_other(calls: list[str]) -> None:
    one, other, fc, norm = layer_of(), layer_of(), nn.Linear(8, 32), RMSNorm(32, 1e-5)
    round_weights(fc)
    caches, rope = [cache_of(one, 8) for _ in range(4)], Rope(8, ROPE, 64)
    chain = Chain(
        "", Product(fc).links(), Layer(one).links(rope, caches[0]),
        Layer(other).links(rope, caches[1]), Norm(norm).links(),
    )  # fmt: skip
    for start in (0, 3):
        x = torch.randn(1, 3, 8)
        quick = chain(x, start, start)
        hidden, rotation = fc(x), rope.span(start, start + 3, x)
        for layer, cache in zip((one, other), caches[2:], strict=True):
            mask = rows_mask(3, start, None, CPU)
            hidden = layer(hidden, rotation, mask=mask, cache=cache)
        torch.testing.assert_close(quick, norm(hidden), **CLOSE)
        for cache in caches:
            cache.advance(3)
    assert calls == 2 * ["chain"]


def test_nothing_is_written_or_read_beyond_a_cache(calls: list[str]) -> None:
    layer = layer_of()
    own, memory, rope = cache_of(layer, 8), cache_of(layer, 8), Rope(8, ROPE, 12)
    rope.reserve(12)
    chain = Chain(
        "", Layer(layer).links(rope, own), Layer(layer, over_memory=True).links(rope, memory)
    )
    x, seen = torch.randn(1, 3, 32), torch.eye(3, dtype=torch.bool)
    for start, position, known, nodes in ((6, 6, 0, None), (0, 0, 9, None), (5, 12, 0, seen)):
        with pytest.raises(IndexError, match="beyond"):
            chain(x, start, position, known, nodes)
    chain(x, 5, 9, 8)
    chain(x, 5, 11, 8, seen)
    with pytest.raises(IndexError, match="beyond"):
        chain(x, 5, 10, 8)  # positions 10 to 12 of 12


def test_arrays_that_do_not_lie_in_one_piece_are_put_into_one(
    calls: list[str], kernels: ModuleType
) -> None:
    layer = layer_of()
    chain = Chain("", Layer(layer).links(Rope(8, ROPE, 64), cache_of(layer, 8)))
    x, seen = torch.randn(1, 32, 3).mT, torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 1]]).bool().T
    whole = chain(x.contiguous(), seen=seen.contiguous())
    torch.testing.assert_close(chain(x, seen=seen), whole)
    assert len(kernels.chain.signatures) == 1  # nothing was compiled for them


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
    target = target.fork("int8")
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


def test_what_is_not_of_llamas_form_is_left_to_torch(kernels: ModuleType) -> None:
    rope = Rope(8, ROPE, 64)
    plain, odd = layer_of(), DecoderLayer(30, 3, 3, 8)  # thirty numbers are no multiple of four
    normed = layer_of(head_norms=True)  # norms within heads
    assert Chain("", Layer(plain).links(rope, cache_of(plain, 8))).serves(ROWS)
    assert not Chain("", Layer(plain).links(rope, cache_of(plain, 8))).serves(ROWS + 1)
    for layer in (normed, odd):
        links = Layer(layer).links(rope, cache_of(layer, 8))
        assert not Chain("", links).serves(1)
        assert not Chain("", Product(nn.Linear(8, 8)).links(), links).serves(1)
    assert not Chain("", Product(nn.Linear(2048, LARGEST // 2048 + 1)).links()).serves(1)
    with switched(False):
        assert not Chain("", Product(nn.Linear(8, 8)).links()).serves(1)


def test_logits_of_which_kernels_choose_tokens(kernels: ModuleType) -> None:
    assert kernels_for(torch.randn(1, 4)) is None  # somebody may want gradients
    with torch.inference_mode():
        assert kernels_for(torch.randn(ROWS + 1, 4)) is None
        assert kernels_for(torch.randn(1, 4).bfloat16()) is None
        assert kernels_for(torch.randn(1, 4)) is kernels


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_and_a_norm(calls: list[str], bias: bool, rows: int) -> None:
    linear, norm, x = nn.Linear(12, 256 + 5, bias), RMSNorm(12, 1e-5), torch.randn(1, rows, 12)
    round_weights(linear)
    torch.testing.assert_close(Chain("", Product(linear).links())(x), linear(x), **CLOSE)
    with torch.no_grad():
        norm.weight.normal_(1, 0.3)
    for size in (1.0, 3e-3):  # where eps is nothing, and much
        found = Chain("", Norm(norm).links())(size * x)
        torch.testing.assert_close(found, norm(size * x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("inner", [12, 256, 4096])
def test_eight_bits_are_near_what_they_stand_for(calls: list[str], inner: int) -> None:
    linear, x = nn.Linear(inner, 300), torch.randn(1, 4, inner)
    linear.weight.data[7] = 0  # an output of nothing
    x[0, 2] = 0
    chain = Chain("", Product(linear).links())
    found, exact = chain(x), linear(x)
    assert ((found - exact).norm() / exact.norm()) < 0.01
    torch.testing.assert_close(found[..., 7], exact[..., 7])
    torch.testing.assert_close(found[0, 2], linear.bias)
    round_weights(linear)  # then what is left is that of the input, in 13 bits or more
    exact = linear(x)
    assert ((Chain("", Product(linear).links())(x) - exact).norm() / exact.norm()) < 5e-4


def test_sums_of_the_largest_whole_numbers_do_not_overflow(calls: list[str]) -> None:
    for inner in (256, 4096):
        linear, x = nn.Linear(inner, 64, bias=False), torch.ones(1, 1, inner)
        linear.weight.data.fill_(1.0)
        found = Chain("", Product(linear).links())(x)
        torch.testing.assert_close(found, torch.full((1, 1, 64), float(inner)))


def test_other_weights_are_seen_from_the_next_run_on(calls: list[str]) -> None:
    with torch.inference_mode(False):
        linear, x = nn.Linear(8, 8, bias=False), torch.ones(1, 1, 8)
    product = Product(linear)
    before = Chain("", product.links())(x)
    with torch.inference_mode(False), torch.no_grad():
        linear.weight.mul_(2)
    torch.testing.assert_close(Chain("", product.links())(x), 2 * before)
    linear.weight = nn.Parameter(torch.zeros(8, 8))
    assert not Chain("", product.links())(x).any()


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
    seen, rope = KVCache([CPU], 2, 8, 16, torch.float32), Rope(8, ROPE, 64)
    own, torchs = (KVCache([CPU], 2, 8, 16, torch.float32) for _ in range(2))
    seen.append(torch.randn(1, 2, 2, 5, 8))
    x, views = torch.randn(1, 2, 32), seen.read(0, 5)[0].unsqueeze(1).unbind()
    quick = Chain("", Joint(net).links(rope, own, seen))(x, 0, 5, 5)
    assert calls == ["chain"]
    mask = rows_mask(2, 0, None, CPU)
    slow = net(x, rope.span(5, 7, x), *views, mask, None, torchs)
    torch.testing.assert_close(quick, slow, **CLOSE)


def test_slots_that_are_written_again_hold_what_came_last(calls: list[str]) -> None:
    layer, rope = layer_of(), Rope(8, ROPE, 64)
    quick, slow = cache_of(layer, 8), cache_of(layer, 8)
    chain = Chain("", Layer(layer).links(rope, quick))
    for _ in range(2):  # without a word to the cache in between
        x = torch.randn(1, 3, 32)
        found = chain(x)
        mask = rows_mask(3, 0, None, CPU)
        expected = layer(x, rope.span(0, 3, x), mask=mask, cache=slow)
        torch.testing.assert_close(found, expected, **CLOSE)


def test_a_copy_holds_no_address_of_what_it_was_copied_from(calls: list[str]) -> None:
    layer = layer_of()
    chain, x = (
        Chain("", Layer(layer).links(Rope(8, ROPE, 64), cache_of(layer, 8))),
        torch.ones(1, 2, 32),
    )
    before = chain(x)
    twin = copy.deepcopy(chain)
    assert twin._steps is None and not twin._kept
    del chain
    torch.testing.assert_close(twin(x), before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_positions_are_float32_whatever_torch_takes_for_a_default(dtype: torch.dtype) -> None:
    expected = Rope(8, ROPE, 64).tables()
    torch.set_default_dtype(dtype)
    try:
        found = Rope(8, ROPE, 64).tables()
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_numba_is_told_of_changes_in_other_files() -> None:
    """It compiles kernels anew when their own file changes: so that names the others' contents."""
    folder = Path(source.__file__).parent
    names = ("compiled.py", "layers.py", "machine.py", "products.py", "steps.py")
    parts = [(folder / name).read_bytes() for name in names]
    assert hashlib.sha256(b"".join(parts)).hexdigest()[:8] == source.ELSEWHERE


def test_matrices_are_laid_out_as_the_kernels_read_them() -> None:
    assert machine.COLUMNS == COLUMNS and source.TILE % COLUMNS == 0
