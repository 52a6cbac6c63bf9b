"""ONNX graphs of decoder layers, built from the weights of our modules."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from moa_core.decoding.tree import LIMITS
from moa_core.engine.int8 import OFF, Int8, block, hadamard, joined, rounded, spread, whole_layers
from moa_core.model.layers import Attention, DecoderLayer, RMSNorm, Rope, SwiGLU

MICROSOFT = "com.microsoft"  # onnxruntime's own operators
UNIT = np.array(1 / 127, np.float32)  # the step of a row whose largest number is 1
SMALL = 1024  # bytes of a constant that is written into the model itself
# Steps of attention weights up to 1 and of values up to 256: sums over 8,192 slots fit in float64.
WEIGHT_STEPS, VALUE_STEPS = 2.0**18, 2.0**13
LEAST = -80.0  # below, a weight is no step; `Exp` is slow where its result is not a normal number
TYPES = {
    np.float32: TensorProto.FLOAT, np.int64: TensorProto.INT64, np.int32: TensorProto.INT32,
    np.int8: TensorProto.INT8,
}  # fmt: skip
END = np.iinfo(np.int64).max
# Positions [1, n], the mask [1, 1, n, past + n] that is added to scores, and slots [n] of a cache.
Rows = tuple[str, str, str]
ROWS = "positions", "bias", "slots"
Memory = tuple[str, str, int]  # K and V [B, G, m, d], and G


class Graph:
    """A graph under construction. Methods add nodes and return the name of their result.

    int8   matrices in 8 bits
    whole  those that are known, by their first linear layer's id
    """

    def __init__(self, int8: bool = False, whole: Mapping[int, Int8] | None = None) -> None:
        self._int8, self._found = int8, whole or {}
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self.weights: dict[str, NDArray[Any]] = {}  # large constants, which the model only names
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._ropes: dict[int, tuple[str, str]] = {}
        # Large constants, kept so that an address stays its array's.
        self._large: dict[tuple[int, tuple[int, ...]], tuple[str, NDArray[Any]]] = {}
        self._kept: dict[tuple[str, int], str] = {}  # places in caches

    def input(self, name: str, kind: Any, *shape: int | str) -> str:
        self._inputs.append(_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, *shape: int | str) -> None:
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(_info(name, np.float32, shape))

    def model(self) -> bytes:
        graph = helper.make_graph(self._nodes, "moa", self._inputs, self._outputs, self._constants)
        versions = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=10)
        found: bytes = model.SerializeToString()
        return found

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """A node with one output."""
        return self.ops(1, kind, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, outputs: int, kind: str, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        names = [f"{kind}.{len(self._nodes)}.{place}" for place in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names

    def constant(self, values: NDArray[Any] | Sequence[int]) -> str:
        """Weights, by reference if they are large; a sequence of integers is a shape or an
        index."""
        array = np.asarray(values, None if isinstance(values, np.ndarray) else np.int64)
        array = np.ascontiguousarray(array)
        name = f"weights.{len(self._constants)}"
        if array.nbytes < SMALL:
            self._constants.append(numpy_helper.from_array(array, name))
            return name
        if known := self._large.get(place := (array.ctypes.data, array.shape)):
            return known[0]
        self._large[place] = name, array
        tensor = TensorProto(name=name, dims=array.shape, data_type=TYPES[array.dtype.type])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in self._located(name, array).items():
            tensor.external_data.add(key=key, value=value)
        self._constants.append(tensor)
        return name

    def _located(self, name: str, array: NDArray[Any]) -> dict[str, str]:
        """Where a large constant is found: `session` passes the array."""
        self.weights[name] = array
        # Without these, onnxruntime copies it.
        return {"location": "memory", "offset": "0", "length": str(array.nbytes)}

    def linear(self, x: str, *linears: nn.Linear) -> list[str]:
        """[.., in] -> [.., out] of each layer."""
        if not self._int8:
            return [self._product(x, linear) for linear in linears]
        whole = self._found.get(id(linears[0])) or rounded(*joined(linears))
        x = self.turn(x, linears[0].in_features) if whole.turned else x
        top = self.op("ReduceMax", self.op("Abs", x), self.constant([-1]), keepdims=1)
        unit, off = self.constant(UNIT), self.constant(np.array(OFF, np.uint8))
        numbers = self.op("QuantizeLinear", self.op("Div", x, top), unit, off)
        weights, scales = self.constant(whole.weights.numpy()), self.constant(whole.scales.numpy())
        y = self.op("MatMulIntegerToFloat", numbers, weights, unit, scales, off, domain=MICROSOFT)
        y = self.op("Mul", y, top)
        y = y if whole.bias is None else self.op("Add", y, self.constant(whole.bias.numpy()))
        if len(linears) == 1:
            return [y]
        widths = [linear.out_features for linear in linears]
        return self.ops(len(widths), "Split", y, self.constant(widths), axis=-1)

    def turn(self, x: str, width: int) -> str:
        """x [1, n, width], rotated as by `int8.turn`."""
        size = block(width)
        blocks = self.op("Reshape", x, self.constant([-1, size]))
        blocks = self.op("MatMul", blocks, self.constant(hadamard(size).numpy()))
        return self.op("Reshape", blocks, self.constant([1, -1, width]))

    def _product(self, x: str, linear: nn.Linear) -> str:
        """With the weights as torch holds them, [out, in]: they are not copied."""
        weight = self.constant(_numpy(linear.weight))
        y = self.op("FusedMatMul", x, weight, domain=MICROSOFT, transB=1)
        return y if linear.bias is None else self.op("Add", y, self.constant(_numpy(linear.bias)))

    def norm(self, x: str, norm: Any, eps: float) -> str:
        weight = self.constant(_numpy(norm.weight))
        return self.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=eps)

    def rows(self, table: Tensor) -> str:
        """The embeddings [1, n, E] of new tokens; `session.rows` makes the inputs. The table [V, E]
        stays in torch's memory: `GraphRun` binds it."""
        self.new_rows()
        kept = self.input("table", np.float32, *table.shape)
        return self.op("Gather", kept, self.input("tokens", np.int64, 1, "n"))

    def new_rows(self) -> None:
        """The inputs of new tokens, which `session.rows` makes, but for the tokens themselves."""
        self.input("positions", np.int64, 1, "n")
        self.input("bias", np.float32, 1, 1, "n", "slots")
        for name, *shape in (("slots", "n"), ("end", 1), ("first", 1)):
            self.input(name, np.int64, *shape)

    def from_first(self, x: str, axis: int = 1) -> str:
        """The rows of x from the input `first` on."""
        return self.op("Slice", x, "first", self.constant([END]), self.constant([axis]))

    def rotate(self, x: str, rope: Rope, positions: str, heads: int) -> str:
        """x [B, n, heads * d], rotated by positions [B, n], or from the first position [1] on."""
        return self.op(
            "RotaryEmbedding", x, positions, *self._tables(rope), domain=MICROSOFT, num_heads=heads
        )

    def layer(self, x: str, layer: DecoderLayer, rope: Rope, cache: str, rows: Rows = ROWS) -> str:
        """A decoder layer with self-attention through a cache: [1, n, E] -> the same."""
        attention, normed = layer.self_attn, self.normed(x, layer)
        x = self.op("Add", x, self.attend(normed, attention, rope, cache, rows))
        return self.feed(x, layer.mlp, layer.post_attention_layernorm)

    def normed(self, x: str, layer: DecoderLayer) -> str:
        """The input of its attention: EAGLE's layer has no norm before it."""
        norm = layer.input_layernorm
        return self.norm(x, norm, norm.eps) if isinstance(norm, RMSNorm) else x

    def attend(
        self, x: str, attention: Attention, rope: Rope, cache: str, rows: Rows = ROWS
    ) -> str:
        """Attention through a cache, which is written in place; see `GraphRun`."""
        size, heads, groups = attention.head_dim, attention.heads, attention.kv_heads
        parts = self.linear(x, attention.q_proj, attention.k_proj, attention.v_proj)
        if attention.head_norms:
            for place, norm in enumerate((attention.q_norm, attention.k_norm)):
                parts[place] = self._head_norm(parts[place], norm, size)
        for place, count in enumerate((heads, groups)):
            parts[place] = self.rotate(parts[place], rope, rows[0], count)
        apart, seen = self.constant([0, 0, groups, size]), []
        for part, name in zip(parts[1:], (f"{cache}.keys", f"{cache}.values"), strict=True):
            shape = 1, groups, f"{cache} slots", size
            kept, where = self.input(name, np.float32, *shape), self._places(rows[2], groups)
            new = self.op("Reshape", part, apart)  # [1, n, G, d]
            new = self.value(new) if name.endswith("values") else new
            self._nodes.append(helper.make_node("ScatterND", [kept, where, new], [f"new.{name}"]))
            self._outputs.append(_info(f"new.{name}", np.float32, shape))
            start, axis = self.constant([0]), self.constant([2])
            seen.append(self.op("Slice", f"new.{name}", start, "end", axis))
        keys, values = seen
        mixed = self._mix(parts[0], keys, values, (groups, heads // groups, size), rows[1])
        return self.linear(mixed, attention.o_proj)[0]

    def _places(self, slots: str, groups: int) -> str:
        """Where a cache [1, G, m, d] keeps slots [n]: [1, n, G, 3] for `ScatterND`."""
        if (slots, groups) not in self._kept:
            zero = self.constant([0])
            slot = self.op("Reshape", slots, self.constant([1, -1, 1, 1]))
            group = self.constant(np.arange(groups).reshape(1, 1, -1, 1))
            none = self.op("Mul", self.op("Add", slot, group), zero)  # [1, n, G, 1]
            three = none, self.op("Add", none, group), self.op("Add", none, slot)
            self._kept[slots, groups] = self.op("Concat", *three, axis=-1)
        return self._kept[slots, groups]

    def over(self, x: str, layer: DecoderLayer, rope: Rope, positions: str, memory: Memory) -> str:
        """A decoder layer with attention to a memory: x [B, n, E] -> the same."""
        attention, (keys, values, groups) = layer.self_attn, memory
        size, heads = attention.head_dim, attention.heads
        (queries,) = self.linear(self.normed(x, layer), attention.q_proj)
        queries = self.rotate(queries, rope, positions, heads)
        mixed = self._mix(queries, keys, values, (groups, heads // groups, size))
        x = self.op("Add", x, *self.linear(mixed, attention.o_proj))
        return self.feed(x, layer.mlp, layer.post_attention_layernorm)

    def memorise(self, x: str, layer: DecoderLayer, rope: Rope, positions: str) -> Memory:
        """K (rotated) and V of x [B, m, E]."""
        attention, groups = layer.self_attn, layer.self_attn.kv_heads
        keys, values = self.linear(self.normed(x, layer), attention.k_proj, attention.v_proj)
        keys = self.rotate(keys, rope, positions, groups)
        shape = self.constant([0, 0, groups, attention.head_dim])
        keys, values = (
            self.op("Transpose", self.op("Reshape", part, shape), perm=[0, 2, 1, 3])
            for part in (keys, values)
        )
        return keys, values, groups

    def memory(self, name: str, groups: int, size: int) -> Memory:
        """K and V [1, G, m, d] of a cache that is only read; input `name.length` [1] is m."""
        length = self.input(f"{name}.length", np.int64, 1)
        start, axis = self.constant([0]), self.constant([2])
        keys, values = (
            self.op(
                "Slice",
                self.input(f"{name}.{part}", np.float32, 1, groups, f"{name} slots", size),
                start, length, axis,
            )
            for part in ("keys", "values")
        )  # fmt: skip
        return keys, values, groups

    def _mix(
        self, queries: str, keys: str, values: str, sizes: tuple[int, int, int], bias: str = ""
    ) -> str:
        """Attention of Q [B, n, H * d] to K, V [B, G, m, d]: [B, n, H * d]. sizes: G, H / G, d."""
        groups, each, size = sizes
        split = self.op("Reshape", queries, self.constant([0, -1, *sizes]))
        split = self.op("Transpose", split, perm=[0, 2, 3, 1, 4])  # [B, G, each, n, d]
        rows = self.op("Reshape", split, self.constant([0, groups, -1, size]))
        scores = self._scores(rows, keys, size)
        if bias:
            bias = self.op("Tile", bias, self.constant([1, 1, each, 1]))
            scores = self.op("Add", scores, bias)
        mixed = self._weighted(scores, values)
        mixed = self.op("Reshape", mixed, self.constant([0, groups, each, -1, size]))
        mixed = self.op("Transpose", mixed, perm=[0, 3, 1, 2, 4])
        return self.op("Reshape", mixed, self.constant([0, -1, groups * each * size]))

    def value(self, new: str) -> str:
        """V of new tokens, as a cache keeps it."""
        return new

    def _scores(self, rows: str, keys: str, size: int) -> str:
        """Products of Q and K [.., d], divided by the square root of d."""
        return self.op("FusedMatMul", rows, keys, domain=MICROSOFT, transB=1, alpha=size**-0.5)

    def _weighted(self, scores: str, values: str) -> str:
        """V, mixed by the softmax of scores."""
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), values)

    def feed(self, x: str, mlp: SwiGLU, norm: Any) -> str:
        """The feed-forward block, its norm and the sum: [.., E] -> the same."""
        gate, up = self.linear(self.norm(x, norm, norm.eps), mlp.gate_proj, mlp.up_proj)
        return self.op("Add", x, *self.linear(self.op("Mul", self.silu(gate), up), mlp.down_proj))

    def silu(self, x: str) -> str:
        return self.op("QuickGelu", x, domain=MICROSOFT, alpha=1.0)

    def _head_norm(self, x: str, norm: Any, size: int) -> str:
        """Qwen3's, over each head."""
        heads = self.op("Reshape", x, self.constant([0, 0, -1, size]))
        return self.op("Reshape", self.norm(heads, norm, norm.eps), self.constant([0, 0, -1]))

    def _tables(self, rope: Rope) -> tuple[str, str]:
        """cos and sin [T, d / 2] of all positions."""
        if id(rope) not in self._ropes:
            rope.reserve(LIMITS["budget"] + 1)  # onnxruntime rotates no more rows than a table has
            cos, sin = rope.tables()
            half = cos.shape[1] // 2  # the first half of sin is negated
            self._ropes[id(rope)] = self.constant(cos[:, :half]), self.constant(sin[:, half:])
        return self._ropes[id(rope)]

    def own(self, x: str) -> str:
        """The residual stream x [1, n, E] in the model's own basis."""
        return x


class Folded(Graph):
    """A target's layers in 8 bits, whose residual stream is rotated by their weights."""

    def __init__(self, layers: Sequence[DecoderLayer]) -> None:
        super().__init__(True, whole_layers(layers))
        self._width = layers[0].self_attn.o_proj.out_features
        norms = ((layer.input_layernorm, layer.post_attention_layernorm) for layer in layers)
        self._bare = {id(norm) for pair in norms for norm in pair}

    def rows(self, table: Tensor) -> str:
        return self.op("MatMul", super().rows(table), self.constant(spread(self._width).numpy()))

    def norm(self, x: str, norm: Any, eps: float) -> str:
        if id(norm) not in self._bare:
            return super().norm(x, norm, eps)
        ones = self.constant(np.ones(self._width, np.float32))
        return self.op("SimplifiedLayerNormalization", x, ones, axis=-1, epsilon=eps)

    def own(self, x: str) -> str:
        back = self.constant(spread(self._width).numpy())
        return self.op("FusedMatMul", x, back, domain=MICROSOFT, transB=1)

    def value(self, new: str) -> str:
        steps = self.constant(np.array(VALUE_STEPS, np.float32))
        return self.op("Div", self.op("Round", self.op("Mul", new, steps)), steps)

    def _weighted(self, scores: str, values: str) -> str:
        """Exact: a row's result does not depend on the slots of what it sees. The last bits of a
        sum depend on its order, and rounding to 8 bits would make much of them. So weights and
        values are whole numbers of steps, whose sums are exact in float64."""
        steps = self.constant(np.array(WEIGHT_STEPS, np.float32))
        least = self.constant(np.array(LEAST, np.float32))
        top = self.op("ReduceMax", scores, self.constant([-1]), keepdims=1)
        weights = self.op("Exp", self.op("Clip", self.op("Sub", scores, top), least))
        weights = self.op("Round", self.op("Mul", weights, steps))
        weights = self.op("Cast", weights, to=TensorProto.DOUBLE)
        total = self.op("ReduceSum", weights, self.constant([-1]), keepdims=1)
        mixed = self.op("MatMul", weights, self.op("Cast", values, to=TensorProto.DOUBLE))
        return self.op("Cast", self.op("Div", mixed, total), to=TensorProto.FLOAT)


def _info(name: str, kind: Any, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TYPES[kind], shape)


def _numpy(weight: Tensor) -> NDArray[np.float32]:
    found: NDArray[np.float32] = weight.detach().numpy()
    return found
