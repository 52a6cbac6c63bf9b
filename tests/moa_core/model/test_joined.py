"""Joined linear layers say what they said apart, and are nobody's copies."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from moa_core.model.joined import LARGEST, Joined, Linear, Packed
from moa_core.model.layers import DecoderLayer
from moa_core.model.norms import RMSNorm

CLOSE = {"atol": 1e-6, "rtol": 1e-5}


def three(
    bias: bool = False, width: int = 16, dtype: torch.dtype = torch.float32
) -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(width, out, bias=bias, dtype=dtype) for out in (12, 4, 8)]


def apart(linears: list[nn.Linear], x: Tensor) -> Tensor:
    return torch.cat([nn.functional.linear(x, one.weight, one.bias) for one in linears], -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # the last is never packed
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(16,), (1, 1, 16), (2, 5, 16)])
def test_together_they_say_what_they_say_apart(
    bias: bool, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    linears, x = three(bias, dtype=dtype), torch.randn(*shape, dtype=dtype)
    joined, base = Joined(*linears), torch.randn(*shape[:-1], 24, dtype=dtype)
    expected = apart(linears, x).detach()
    with torch.inference_mode():
        torch.testing.assert_close(joined(x), expected, **CLOSE)
        torch.testing.assert_close(joined(x, 1), expected[..., 12:], **CLOSE)
        if len(shape) > 1:
            torch.testing.assert_close(joined.added(base, x), base + expected, **CLOSE)
    torch.testing.assert_close(joined(x).detach(), expected, **CLOSE)


def normed(width: int = 16, eps: float = 1e-5) -> RMSNorm:
    norm = RMSNorm(width, eps)
    with torch.no_grad():
        norm.weight.normal_(1, 0.5)
    return norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-4, 1e-2, 1.0, 1e4])  # where eps is all, and nothing
def test_a_norm_before_them_is_within_them(size: float, dtype: torch.dtype) -> None:
    linears, norm = three(dtype=dtype), normed().to(dtype)
    joined, x = Joined(*linears, norm=norm), torch.randn(2, 5, 16, dtype=dtype) * size
    expected = apart(linears, norm(x)).detach()
    close = CLOSE if dtype != torch.bfloat16 else {"atol": 1e-2, "rtol": 1e-2}
    torch.testing.assert_close(joined(x).detach(), expected, **close)
    with torch.inference_mode():
        torch.testing.assert_close(joined(x), expected, **close)
        torch.testing.assert_close(joined(x, 1), expected[..., 12:], **close)


def test_a_row_is_normed_as_among_many() -> None:
    norm, x = normed(256), torch.randn(70, 256)
    with torch.inference_mode():
        together = norm.direction(x[None])[0]
        for rows in (1, 2, 3, 11, 33):
            assert torch.equal(norm.direction(x[None, 5 : 5 + rows])[0], together[5 : 5 + rows])


@torch.no_grad()
def test_a_norm_that_was_trained_is_noticed() -> None:
    linears, norm, x = three(), normed(), torch.randn(3, 16)
    joined = Joined(*linears, norm=norm)
    before = joined(x)
    norm.weight.mul_(2)
    torch.testing.assert_close(joined(x), 2 * before, **CLOSE)
    other = copy.deepcopy(joined)
    norm.weight.zero_()
    torch.testing.assert_close(other(x), 2 * before, **CLOSE)
    assert not joined(x).any()


def test_biases_of_some_alone_are_refused() -> None:
    [one, *_], [other, *_] = three(bias=True), three()
    with torch.inference_mode(), pytest.raises(ValueError, match="all have a bias, or none"):
        Joined(one, other)(torch.randn(1, 16))


def test_one_token_is_read_as_among_many() -> None:
    [linear, *_], x = three(width=64), torch.randn(40, 64)
    with torch.inference_mode():
        together = Joined(linear)(x)
        for row in range(40):
            torch.testing.assert_close(Joined(linear)(x[row : row + 1])[0], together[row], **CLOSE)


def test_gradients_reach_each_of_them() -> None:
    linears, x = three(bias=True), torch.randn(3, 16)
    joined = Joined(*linears)
    with torch.no_grad():
        joined(x)  # from here on their weights are views
    joined(x).square().sum().backward()
    found = [one.weight.grad.clone() for one in linears]
    for one in linears:
        one.weight.grad = None
    apart(linears, x).square().sum().backward()
    for one, gradient in zip(linears, found, strict=True):
        torch.testing.assert_close(gradient, one.weight.grad)


def trained(linears: list[nn.Linear]) -> None:
    optimiser = torch.optim.SGD([one.weight for one in linears], 0.1)
    apart(linears, torch.ones(1, 16)).sum().backward()
    optimiser.step()


def moved(linears: list[nn.Linear]) -> None:
    for one in linears:
        one.to(torch.float64).to(torch.float32)
        one.weight.data = one.weight.data + 1


def given_others(linears: list[nn.Linear]) -> None:
    linears[2].load_state_dict({"weight": torch.randn(8, 16)})


@pytest.mark.parametrize("change", [trained, moved, given_others])
@torch.no_grad()
def test_whatever_happens_to_them_is_noticed(change) -> None:
    linears, x = three(), torch.randn(3, 16)
    joined = Joined(*linears)
    before = joined(x)
    with torch.enable_grad():
        change(linears)
    assert not torch.allclose(joined(x), before)
    torch.testing.assert_close(joined(x), apart(linears, x), **CLOSE)


@torch.no_grad()
def test_they_hold_one_matrix_and_are_saved_one_by_one(tmp_path: Path) -> None:
    layer = DecoderLayer(16, 4, 2, 24)
    expected = {name: weight.clone() for name, weight in layer.state_dict().items()}
    layer(torch.randn(1, 3, 16), (torch.ones(3, 4), torch.zeros(3, 4)), causal=True)
    attention = layer.self_attn
    end = attention.q_proj.weight.data_ptr() + attention.q_proj.weight.nbytes
    assert attention.k_proj.weight.data_ptr() == end, "one behind the other"
    save_file(layer.state_dict(), tmp_path / "layer.safetensors")
    found = load_file(tmp_path / "layer.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


@torch.no_grad()
def test_a_copy_is_a_copy() -> None:
    one, x = Linear(16, 8), torch.randn(2, 16)
    expected = one(x)
    other = copy.deepcopy(one)
    one.weight.zero_()
    torch.testing.assert_close(other(x), expected, **CLOSE)
    torch.testing.assert_close(one(x), one.bias.expand(2, 8))


@torch.no_grad()
def test_a_head_is_packed_and_still_somebody_elses() -> None:
    head = nn.Linear(16, 40, bias=False)
    packed, x = Packed(head), torch.randn(2, 16)
    torch.testing.assert_close(packed(x), head(x), **CLOSE)
    assert packed.weight is head.weight and packed.out_features == 40


@torch.inference_mode()
def test_large_matrices_are_not_held_twice() -> None:
    small, large = nn.Linear(64, 64), nn.Linear(2, LARGEST // 2 + 1)
    for linear, packs in ((small, torch.backends.mkldnn.is_available()), (large, False)):
        joined, x = Joined(linear), torch.randn(1, linear.in_features)
        torch.testing.assert_close(joined(x), linear(x), **CLOSE)
        assert joined._part(0).packed == packs
