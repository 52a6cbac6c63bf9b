"""A drafter as a graph for a browser, where onnxruntime-web runs it.

It is the graph of `engine.drafters`, with embeddings before it and the head behind it. The
embeddings of the draft vocabulary are the head's own weights, so they are downloaded once. Matrices
are in 8 bits.

The graph gives the same numbers on every processor. The last bits of a sum in float32 depend on its
order, and rounding to 8 bits would make much of them. So sums are of whole numbers, which are
exact, or in float64, rounded to float32.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import TensorProto
from torch import Tensor, nn

from moa_core.drafters.base import Drafter
from moa_core.engine.drafters import QUICK, Onnx, OnnxEagle, OnnxMoA
from moa_core.engine.graph import Graph
from moa_core.engine.int8 import Int8, block, hadamard, rounded
from moa_core.errors import UserError
from moa_core.model.layers import Rope
from moa_core.model.target import Target

HEAD, LAYERS = "head", "layers"


def web_files(drafter: Drafter, target: Target) -> dict[str, bytes]:
    """The graph `draft` and its weights: `head`, which drafters with one vocabulary share, and
    `layers`. UserError for a drafter that a browser cannot run."""
    quick = web_drafter(drafter, target)
    head, table = quick.head_for(target), target.embed.weight.detach()
    assert isinstance(head, nn.Linear)
    table = table if quick.vocabulary is None else table[quick.vocabulary]
    whole = rounded(head.weight.detach(), None)
    tied = torch.equal(table, head.weight.detach())
    draft = Web(head, whole, whole if tied else rounded(table, None))
    quick.draw(draft)
    return {"draft": draft.model(), **{name: bytes(data) for name, data in draft.data.items()}}


def web_drafter(drafter: Drafter, target: Target) -> Onnx:
    """The drafter as `Web` draws it. UserError for one that a browser cannot run."""
    kind = QUICK.get(type(drafter))
    quick = drafter if kind is None else kind(drafter, target, True)
    if not isinstance(quick, OnnxMoA | OnnxEagle):
        raise UserError(f"{drafter.name} cannot draft in a browser: MoA and EAGLE-2 can.")
    weights = quick.weights()
    if weights is None or any(one.dtype != torch.float32 for one in weights):
        raise UserError(f"A browser cannot run the layers of {target.name}.")
    return quick


class Web(Graph):
    """A graph with its weights in files.

    head   of the drafter's vocabulary
    whole  the same in 8 bits
    table  the embeddings of that vocabulary, in 8 bits
    """

    def __init__(self, head: nn.Linear, whole: Int8, table: Int8) -> None:
        super().__init__(True, {id(head): whole})
        self._head, self._table, self._file = head, table, LAYERS
        self.data = {HEAD: bytearray(), LAYERS: bytearray()}

    def _located(self, name: str, array: NDArray[Any]) -> dict[str, str]:
        data = self.data[self._file]
        place = {"location": self._file, "offset": str(len(data)), "length": str(array.nbytes)}
        data += array.tobytes()
        data += bytes(-len(data) % 64)
        return place

    def rows(self, table: Tensor) -> str:
        """Tokens by their `places` [n] in the vocabulary; -1 for others, whose embeddings are in
        `outside` [1, n, E]."""
        self.new_rows()
        places, width = self.input("places", np.int64, "n"), table.shape[1]
        outside, found = self.input("outside", np.float32, 1, "n", width), self._lookup(places)
        inside = self.op("GreaterOrEqual", places, self.constant([0]))
        return self.op("Where", self.op("Unsqueeze", inside, self.constant([1])), found, outside)

    def _lookup(self, places: str) -> str:
        """[n] -> [1, n, E]"""
        self._file = HEAD
        weights, scales = (
            self.constant(one.numpy()) for one in (self._table.weights, self._table.scales)
        )
        rows = self.op("Gather", weights, places, axis=1)  # [E, n]
        rows = self.op("Mul", self._narrow(rows), self.op("Gather", scales, places))
        rows = self.turn(self.op("Transpose", rows, perm=[1, 0]), len(self._table.weights))
        self._file = LAYERS
        return rows

    def output(self, name: str, value: str, *shape: int | str) -> None:
        if name == "states":
            self._file = HEAD
            (value,) = self.linear(value, self._head)
            name, shape = "logits", (*shape[:-1], self._head.out_features)
        super().output(name, value, *shape)

    # ---- in float64 ----

    def turn(self, x: str, width: int) -> str:
        size = block(width)
        blocks = self._wide(self.op("Reshape", x, self.constant([-1, size])))
        turned = self.op("MatMul", blocks, self._wide(self.constant(hadamard(size).numpy())))
        return self.op("Reshape", self._narrow(turned), self.constant([1, -1, width]))

    def norm(self, x: str, norm: Any, eps: float) -> str:
        weight = self._wide(self.constant(norm.weight.detach().numpy()))
        x = self.op("SimplifiedLayerNormalization", self._wide(x), weight, axis=-1, epsilon=eps)
        return self._narrow(x)

    def rotate(self, x: str, rope: Rope, positions: str, heads: int) -> str:
        cos, sin = (self.op("Gather", table, positions) for table in self._tables(rope))
        x = self.op("Reshape", x, self.constant([0, 0, heads, 2, -1]))
        one, other = self.ops(2, "Split", x, self.constant([1, 1]), axis=3)
        turned = (
            self.op("Sub", self.op("Mul", one, cos), self.op("Mul", other, sin)),
            self.op("Add", self.op("Mul", other, cos), self.op("Mul", one, sin)),
        )
        return self.op("Reshape", self.op("Concat", *turned, axis=3), self.constant([0, 0, -1]))

    def _tables(self, rope: Rope) -> tuple[str, str]:
        """cos and sin [T, 1, 1, d / 2], computed when the graph is loaded: they are long."""
        if id(rope) not in self._ropes:
            source = rope._source
            places = np.arange(rope._count, dtype=np.float32)[:, None, None, None]
            steps = self.constant(source.inv_freq.float().numpy())
            angles = self._wide(self.op("Mul", self.constant(places), steps))
            scale = self.constant(np.array(source.attention_scaling, np.float64))
            cos, sin = (self.op("Mul", self.op(kind, angles), scale) for kind in ("Cos", "Sin"))
            self._ropes[id(rope)] = self._narrow(cos), self._narrow(sin)
        return self._ropes[id(rope)]

    def _scores(self, rows: str, keys: str, size: int) -> str:
        keys = self.op("Transpose", self._wide(keys), perm=[0, 1, 3, 2])
        scores = self.op("MatMul", self._wide(rows), keys)
        return self._narrow(self.op("Mul", scores, self.constant(np.array(size**-0.5))))

    def _weighted(self, scores: str, values: str) -> str:
        weights = self.op("Softmax", self._wide(scores), axis=-1)
        return self._narrow(self.op("MatMul", weights, self._wide(values)))

    def silu(self, x: str) -> str:
        return self.op("Mul", x, self._narrow(self.op("Sigmoid", self._wide(x))))

    def _wide(self, x: str) -> str:
        return self.op("Cast", x, to=TensorProto.DOUBLE)

    def _narrow(self, x: str) -> str:
        return self.op("Cast", x, to=TensorProto.FLOAT)
