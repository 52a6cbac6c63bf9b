"""Matrices in 8 bits: each row of a matrix, and each row of numbers, has a scale of its own.

A rotation comes first: it spreads outliers, which would make a scale coarse (QuaRot, arXiv
2404.00456). The target's residual stream is rotated once and for all, by its weights, so that only
`down_proj` and the head rotate their input when they run, in blocks.
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from timeit import repeat
from typing import cast

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from moa_core.cache import cache_folder
from moa_core.model.layers import DecoderLayer

log = logging.getLogger(__name__)
WIDEST = 64  # numbers that are rotated together
TOP = 127  # the largest weight, where the processor adds up products without loss
FORMAT = 3  # of the files
OFF = 128  # added to a row's whole numbers, which are 1 to 255


@dataclass(frozen=True)
class Int8:
    """The matrix of one or several linear layers, side by side, in 8 bits.

    weights  [in, out] whole numbers
    scales   [out] the factor of each column
    turned   whether their input is rotated before it is rounded
    """

    weights: Tensor
    scales: Tensor
    bias: Tensor | None
    turned: bool = True


def block(width: int) -> int:
    """How many numbers are rotated together: the largest power of two that divides the width."""
    return min(WIDEST, width & -width)


@cache
def hadamard(size: int) -> Tensor:
    """[size, size] orthogonal, symmetric, hence its own inverse."""
    found = torch.ones(1, 1)
    while len(found) < size:
        found = torch.cat([torch.cat([found, found], 1), torch.cat([found, -found], 1)])
    return found.div(size**0.5)


def turn(x: Tensor) -> Tensor:
    """Each block of x [.., width], rotated. Twice gives x."""
    size = block(x.shape[-1])
    turned: Tensor = x.unflatten(-1, (-1, size)) @ hadamard(size)
    return turned.flatten(-2)


@cache
def spread(width: int) -> Tensor:
    """[width, width] orthogonal: rotates the residual stream, so that a large number becomes many
    small ones. A Hadamard matrix, times a cosine transform for the width's odd factor."""
    size = width & -width
    odd = width // size
    angles = torch.pi / odd * (torch.arange(odd) + 0.5)[:, None] * torch.arange(odd)
    cosines = angles.cos() * (2 / odd) ** 0.5
    cosines[:, 0] /= 2**0.5
    return torch.kron(cosines, hadamard(size))


def joined(linears: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """The weights [out, in] and the biases [out] of linear layers, side by side."""
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    matrix = torch.cat([linear.weight.detach() for linear in linears])
    return matrix, torch.cat(biases) if biases else None


def rounded(matrix: Tensor, bias: Tensor | None, turned: bool = True) -> Int8:
    """A matrix [out, in] in 8 bits."""
    matrix, top = turn(matrix) if turned else matrix, largest()
    scales = (matrix.abs().amax(1) / top).clamp_min(1e-30)
    whole = (matrix / scales[:, None]).round().to(torch.int8)
    return Int8(whole.T.contiguous(), scales, bias, turned)


def parts(layer: DecoderLayer) -> dict[str, tuple[nn.Linear, ...]]:
    """Linear layers with the same input."""
    attention, mlp = layer.self_attn, layer.mlp
    return {
        "qkv": (attention.q_proj, attention.k_proj, attention.v_proj),
        "o": (attention.o_proj,),
        "gate_up": (mlp.gate_proj, mlp.up_proj),
        "down": (mlp.down_proj,),
    }


def folded(layer: DecoderLayer) -> dict[str, Int8]:
    """A layer whose input and output are rotated, and whose norms have no weights."""
    norms = {"qkv": layer.input_layernorm, "gate_up": layer.post_attention_layernorm}
    made: dict[str, Int8] = {}
    for name, linears in parts(layer).items():
        matrix, bias = joined(linears)
        if name in norms:
            weight = cast(Tensor, norms[name].weight).detach()
            made[name] = rounded((matrix * weight) @ spread(matrix.shape[1]), bias, turned=False)
        else:
            wide = spread(len(matrix))
            bias = None if bias is None else bias @ wide
            made[name] = rounded(wide.T @ matrix, bias, turned=name == "down")
    return made


def whole_layers(layers: Sequence[DecoderLayer]) -> dict[int, Int8]:
    """`folded` of all layers by their first linear layer's id, from the cache folder."""

    def make() -> dict[str, Int8]:
        made = [folded(layer).items() for layer in layers]
        return {f"{at}.{name}": whole for at, layer in enumerate(made) for name, whole in layer}

    found = stored([weight for layer in layers for weight in layer.parameters()], make)
    return {
        id(linears[0]): found[f"{at}.{name}"]
        for at, layer in enumerate(layers)
        for name, linears in parts(layer).items()
    }


def whole_head(head: nn.Linear) -> Int8:
    """A head, from the cache folder."""
    return stored([*head.parameters()], lambda: {"head": rounded(*joined([head]))})["head"]


def stored(weights: Sequence[Tensor], make: Callable[[], dict[str, Int8]]) -> dict[str, Int8]:
    """What `make` makes of these weights, from a file that is written once and then mapped."""
    path = cache_folder() / f"int8-{digest(weights)}.safetensors"
    try:
        return _apart(load_file(path))
    except (OSError, SafetensorError):  # not there, or damaged
        made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as beside:
            save_file(_together(made), Path(beside) / path.name)
            os.replace(Path(beside) / path.name, path)
        return _apart(load_file(path))
    except (OSError, SafetensorError) as error:
        log.warning("The 8-bit weights cannot be kept in %s: %s", path.parent, error)
        return made


def digest(weights: Sequence[Tensor]) -> str:
    """A hash of weights, and of what else decides how they are rounded."""
    found = hashlib.sha256(f"{FORMAT} {WIDEST} {largest()}".encode())
    for weight in weights:
        found.update(f"{tuple(weight.shape)}".encode())
        found.update(weight.detach().contiguous().numpy().data)
    return found.hexdigest()[:32]


def _together(made: Mapping[str, Int8]) -> dict[str, Tensor]:
    return {
        f"{name}.{kind}": torch.as_tensor(value)
        for name, whole in made.items()
        for kind, value in vars(whole).items()
        if value is not None
    }


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Int8]:
    return {
        name: Int8(
            tensors[f"{name}.weights"],
            tensors[f"{name}.scales"],
            tensors.get(f"{name}.bias"),
            bool(tensors[f"{name}.turned"]),
        )
        for name in (key.removesuffix(".weights") for key in tensors if key.endswith(".weights"))
    }


@cache
def largest() -> int:
    """The largest weight here: half as much on a processor that adds up two products in 16 bits."""
    ones, weights = np.full((2, 64), 255, np.uint8), np.full((64, 16), TOP, np.int8)
    (found,) = _probe("MatMulInteger", ones, weights)()
    return TOP if (found == 64 * 255 * TOP).all() else TOP // 2


@cache
def slower() -> bool:
    """Whether a product in 8 bits is slower here than one in float32: measured, and logged."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(12, 1024)), rng.normal(size=(1024, 4096))
    runs = (
        _probe("MatMulInteger", (x * 30 + OFF).astype(np.uint8), (weights * 30).astype(np.int8)),
        _probe("MatMul", x.astype(np.float32), weights.astype(np.float32)),
    )
    whole, plain = (min(repeat(run, number=1, repeat=20)) for run in runs)  # seconds
    if found := whole > plain:
        log.warning(
            "This processor multiplies 8-bit integers at %.1f x the speed of float32: without "
            "--dtype int8 it is faster.", plain / whole,
        )  # fmt: skip
    return found


def _probe(
    kind: str, x: NDArray[np.generic], weights: NDArray[np.generic]
) -> Callable[[], list[NDArray[np.generic]]]:
    """A product of rows with a constant matrix, as a graph of its own."""
    types = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8}
    result = TensorProto.FLOAT if kind == "MatMul" else TensorProto.INT32
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "weights"], ["y"])], "probe",
        [helper.make_tensor_value_info("x", types[str(x.dtype)], x.shape)],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(weights, "weights")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"x": x})
