"""Drafters whose networks are graphs, in float32 or with weights in eight bits."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import Drafter, Reader, ServerOutputs
from moa_core.drafters.eagle import EagleDrafter, FeatureDrafter
from moa_core.drafters.eagle3 import Eagle3Drafter
from moa_core.drafters.independent import IndependentDrafter
from moa_core.drafters.medusa import MedusaDrafter
from moa_core.drafters.moa import LSA_CHUNK, MoADrafter
from moa_core.drafters.tandem import TandemDrafter
from moa_core.engine.graph import ROWS, Graph
from moa_core.engine.session import Caches, GraphRun, Sessions, one_thread, rows
from moa_core.engine.target import Head, add_layers, cached, graph_weights, head_session
from moa_core.model.layers import Attention, DecoderLayer, Rope
from moa_core.model.target import Observation, Target


class Onnx(Drafter):
    """Shared base. In a class's bases, it comes before the torch drafter.

    int8  whether to use 8-bit weights
    """

    target: Target
    _logits: Any  # Head, if there is a graph

    def __init__(self, drafter: Drafter, target: Target, int8: bool) -> None:
        self.__dict__.update(drafter.__dict__)
        self.target, self._sessions = target, Sessions()
        self.precision = "int8" if int8 else "float32"

    @property
    def _model(self) -> Target:
        """The model whose embeddings, head and last layers it uses."""
        return self.target

    @property
    def _table(self) -> Tensor:
        """The embeddings, [V, E]."""
        return self._model.embed.weight

    @property
    def _last(self) -> int:
        """How many of these layers it uses."""
        return self.tli or 0

    def weights(self) -> list[Tensor] | None:
        """The weights that its graph needs; None if no graph can hold them."""
        theirs = graph_weights(self._model, self._last, self.head_for(self.target))
        sizes = [part.head_dim for part in self.net.modules() if isinstance(part, Attention)]
        if theirs is None or any(size % 8 for size in sizes):
            return None
        return [*self.net.parameters(), *theirs]

    def session(self) -> Any:
        """The session; None if torch must run this drafter."""
        if (weights := self.weights()) is None:
            return None
        if head_session(self.head_for(self.target), self.precision == "int8") is None:
            return None
        return self._sessions.get(weights, lambda: self.draw(Graph(self.precision == "int8")))

    def open(self, target: Target, capacity: int) -> None:
        super().open(target, capacity)  # type: ignore[safe-super]  # the torch drafter's
        session = self.session()
        self._run = None if session is None else GraphRun(session, self._caches(), self._table)
        self._logits = None if session is None else Head(self.head, self.precision == "int8")

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        with one_thread():
            return super().server_outputs(observation)

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        with one_thread():
            super().observe(ids, outputs)  # type: ignore[safe-super]

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        with one_thread():
            return super().propose(token, settings)  # type: ignore[safe-super]

    @abstractmethod
    def draw(self, graph: Graph) -> Graph:
        """Its network in a new graph: from tokens, or a feature, to the head's input."""

    @abstractmethod
    def _caches(self) -> Caches: ...

    def _ended(self, graph: Graph, x: str) -> Graph:
        """The graph, with the head's input x as its output."""
        graph.output("states", x, 1, "rows", self._model.config.hidden_size)
        return graph

    def _reserved(self, rope: Rope) -> Rope:
        """The rope, with a table of all positions that a text may have."""
        rope.reserve(self._model.context)
        return rope

    def _ask(
        self, run: GraphRun, tokens: Tensor, start: int, past: int, seen: Tensor | None,
        **more: Tensor,
    ) -> list[Tensor]:  # fmt: skip
        """Logits [rows, D] after tokens, as in `Reader.read`; `more` are inputs and outputs."""
        count = len(tokens)
        places = range(start, start + count) if seen is None else [start] * count
        inputs = {**rows(tokens, places, past, seen), **more}
        shape = 1, 1 if seen is None else count, self._model.config.hidden_size
        names = "states", *(f"new.{name}" for name in more)
        states, *found = run(inputs, dict.fromkeys(names, shape))
        return [self._logits(states[0]), *found]


class OnnxReader(Onnx, Reader):
    """A drafter that reads tokens into a cache."""

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        if self._run is None:
            return super().read(tokens, start, seen)  # type: ignore[safe-super]
        (logits,) = self._ask(self._run, tokens, start, self.text.length, seen)
        self.text.advance(len(tokens))
        return logits


class OnnxMoA(OnnxReader, MoADrafter):
    """SA, CA, TLI and head are one graph. LSA, beside the target, is another, in float32: with its
    many rows, int8 is not faster."""

    def __init__(self, drafter: Drafter, target: Target, int8: bool) -> None:
        super().__init__(drafter, target, int8)
        self._lsa = Sessions()

    def open_server(self, target: Target, capacity: int) -> None:
        super().open_server(target, capacity)
        session = self._lsa.get(list(self.net.parameters()), self._lsa_graph)
        self._memorise = None if session is None else GraphRun(session, {})

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        logits = super().read(tokens, start, seen)
        if self._run is not None and self.tail is not None:
            self.tail.advance(len(logits))
        return logits

    def _caches(self) -> Caches:
        caches = {"memory": (self.memory, 0), "text": (self.text, 0)}
        return caches if self.tail is None else {**caches, **cached(self.tail, "tail", self.tli)}

    def draw(self, graph: Graph) -> Graph:
        net, sizes, x = self.net, self.net.config, graph.rows(self._table)
        x = graph.layer(x, net.self_attention, self._reserved(self.sa_rope), "text")
        x, positions = graph.from_first(x), graph.from_first(ROWS[0])
        memory = graph.memory("memory", sizes.ca.kv_heads, sizes.ca.head_dim)
        x = graph.over(x, net.cross_attention, self._reserved(self.ca_rope), positions, memory)
        if self.tli:
            at = positions, graph.from_first(ROWS[1], 2), graph.from_first(ROWS[2], 0)
            x = add_layers(graph, x, self.target, "tail", self.tli, at)
        return self._ended(graph, x)

    def _memory(self, observation: Observation) -> Tensor:
        if self._memorise is None:
            return super()._memory(observation)
        sizes, start, found = self.net.config.ca, observation.start, []
        for at in range(0, len(observation.ids), LSA_CHUNK):
            layers = observation.part(at, at + LSA_CHUNK).keys_values()
            count = layers.shape[-2]
            positions = np.arange(start + at, start + at + count)[None]
            shape = 2, sizes.kv_heads, count, sizes.head_dim
            found += self._memorise({"layers": layers, "positions": positions}, {"memory": shape})
        return torch.cat(found, 2)[None]

    def _lsa_graph(self) -> Graph:
        """`MoANet.memory`, then CA's K and V of it."""
        graph, net, target = Graph(), self.net, self.target
        sizes, count = net.config, len(target.layers)
        shape = count, 2, target.kv_heads, "n", target.head_dim
        x = graph.input("layers", np.float32, *shape)
        positions = graph.input("positions", np.int64, 1, "n")
        x = graph.op("Transpose", x, perm=[3, 0, 2, 1, 4])  # as in `token_vectors`
        x = graph.op("Reshape", x, graph.constant([-1, count, target.kv_width]))  # [n, L, W]
        first = 0 if sizes.lsa and sizes.pool == "mean" else count - 1
        asked = graph.op("Slice", x, *map(graph.constant, ([first], [count], [1])))
        if sizes.lsa and self.layer_rope:
            lsa, rope = net.layer_self_attention, self.layer_rope
            memory = graph.memorise(x, lsa, rope, graph.constant([0]))
            asked = graph.over(asked, lsa, rope, graph.constant([first]), memory)
            if sizes.pool == "mean":
                asked = graph.op("ReduceMean", asked, graph.constant([1]))
        (x,) = graph.linear(asked, net.Ekv2E)
        x = graph.op("Reshape", x, graph.constant([1, -1, sizes.width]))
        rope = self._reserved(self.ca_rope)
        keys, values, groups = graph.memorise(x, net.cross_attention, rope, positions)
        both = graph.op("Concat", keys, values, axis=0)
        graph.output("memory", both, 2, groups, "n", sizes.ca.head_dim)
        return graph


class OnnxIndependent(OnnxReader, IndependentDrafter):
    @property
    def _model(self) -> Target:
        return self.small

    @property
    def _last(self) -> int:
        return len(self.small.layers)

    def _caches(self) -> Caches:
        return cached(self.text, "text", self._last)

    def draw(self, graph: Graph) -> Graph:
        x = add_layers(graph, graph.rows(self._table), self.small, "text", self._last)
        return self._ended(graph, graph.from_first(x))

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        return super().read(tokens, start, seen)[:, : self.target.config.vocab_size]


class OnnxTandem(OnnxReader, TandemDrafter):
    """Torch projects the target's states, beside the target."""

    def _caches(self) -> Caches:
        return cached(self.text, "text", self.net.config.count)

    def draw(self, graph: Graph) -> Graph:
        net, rope, x = self.net, self._reserved(self.rope), graph.rows(self._table)
        for place, layer in enumerate(net.layers):
            x = graph.layer(x, cast(DecoderLayer, layer), rope, f"text.{place}")
        return self._ended(graph, graph.norm(graph.from_first(x), net.norm, net.config.eps))


class OnnxMedusa(Onnx, MedusaDrafter):
    """All heads are one graph, which runs once a cycle."""

    def _caches(self) -> Caches:
        return {}

    def draw(self, graph: Graph) -> Graph:
        feature = graph.input("feature", np.float32, 1, 1, self.net.config.width)
        ahead = []
        for head, turn in zip(self.net.heads, self.net.turns, strict=True):
            hidden = feature
            for block in cast(nn.ModuleList, head):
                (x,) = graph.linear(hidden, cast(nn.Linear, block))
                hidden = graph.op("Add", hidden, graph.silu(x))
            ahead += graph.linear(hidden, cast(nn.Linear, turn))
        return self._ended(graph, graph.op("Concat", *ahead, axis=1))

    def ahead(self, feature: Tensor) -> Tensor:
        if self._run is None:
            return super().ahead(feature)
        sizes = self.net.config
        (states,) = self._run({"feature": feature[None]}, {"states": (1, sizes.heads, sizes.width)})
        found: Tensor = self._logits(states[0])
        return found


class OnnxFeatures(Onnx, FeatureDrafter):
    """EAGLE's heads: features go in beside the embeddings, and come out."""

    def _caches(self) -> Caches:
        return {"text": (self.cache, 0)}

    def draw(self, graph: Graph) -> Graph:
        x, width = graph.rows(self._table), self.target.config.hidden_size
        features = graph.input("features", np.float32, 1, "n", width)
        x = graph.from_first(self._layer(graph, x, features, self._reserved(self.rope)))
        graph.output("new.features", x, 1, "rows", width)
        return self._ended(graph, self._head_input(graph, x))

    @abstractmethod
    def _layer(self, graph: Graph, x: str, features: str, rope: Rope) -> str: ...

    def _head_input(self, graph: Graph, x: str) -> str:
        """The head's input for a feature."""
        return x

    def _step(
        self, tokens: Tensor, features: Tensor, start: int, seen: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if self._run is None:
            return super()._step(tokens, features, start, seen)
        past = self.cache.length
        logits, hidden = self._ask(self._run, tokens, start, past, seen, features=features)
        self.cache.advance(len(tokens))
        return hidden, logits


class OnnxEagle(OnnxFeatures, EagleDrafter):
    def _layer(self, graph: Graph, x: str, features: str, rope: Rope) -> str:
        (x,) = graph.linear(graph.op("Concat", x, features, axis=-1), self.net.fc)
        return graph.layer(x, cast(DecoderLayer, self.net.layers[0]), rope, "text")


class OnnxEagle3(OnnxFeatures, Eagle3Drafter):
    def session(self) -> Any:
        """Torch runs those with a head or embeddings of their own: their models are large."""
        sizes = self.net.config
        return None if sizes.words or sizes.embeddings else super().session()

    def _layer(self, graph: Graph, x: str, features: str, rope: Rope) -> str:
        sizes, layer = self.net.config, self.net.midlayer
        normed = graph.norm(features, layer.hidden_norm, sizes.eps)
        joined = graph.norm(x, layer.input_layernorm, sizes.eps)
        joined = graph.op("Concat", joined, normed, axis=-1)
        residual = normed if sizes.norm_residual else features
        x = graph.op("Add", residual, graph.attend(joined, layer.self_attn, rope, "text"))
        x = graph.feed(x, layer.mlp, layer.post_attention_layernorm)
        return graph.norm(x, self.net.norm, sizes.eps) if sizes.norm_output else x

    def _head_input(self, graph: Graph, x: str) -> str:
        sizes = self.net.config
        return x if sizes.norm_output else graph.norm(x, self.net.norm, sizes.eps)


KINDS = (OnnxMoA, OnnxEagle, OnnxEagle3, OnnxTandem, OnnxMedusa, OnnxIndependent)
QUICK: dict[type[Drafter], type[Onnx]] = {kind.__bases__[-1]: kind for kind in KINDS}


def accelerate_drafter(drafter: Drafter, target: Target, int8: bool) -> Drafter:
    """A drafter with the same weights that runs as a graph, or the same drafter if none can.

    int8  use 8-bit weights; the result's `precision` says whether it does
    """
    if (kind := QUICK.get(type(drafter))) is None:
        return drafter
    quick = kind(drafter, target, int8)
    return drafter if quick.session() is None else quick
