"""The target's forward as a graph."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Lock
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from moa_core.engine.graph import ROWS, Folded, Graph, Rows
from moa_core.engine.int8 import TOP, largest, slower, whole_head
from moa_core.engine.session import Caches, GraphRun, Sessions, one_thread, rows
from moa_core.errors import UserError
from moa_core.model.cache import KVCache
from moa_core.model.layers import DecoderLayer, Rope
from moa_core.model.target import Matrix, Observation, Target

log = logging.getLogger(__name__)
CHUNK = 128  # prompt tokens read at once: each has attention scores for all tokens before it


class OnnxTarget(Target):
    """A target that reads and verifies with a graph; torch does the rest.

    int8  matrices in 8 bits. What it tells others is float32, in the model's own basis.
    """

    torch_threads = staticmethod(one_thread)

    def __init__(self, target: Target, int8: bool = False) -> None:
        self.__dict__.update(target.__dict__)
        self._int8 = int8
        self._sessions = Sessions()
        self._tapped: set[int] = set()  # layers that any drafter has tapped so far
        self._run: GraphRun | None = None
        self._head: Head | None = None
        self._bound: KVCache | None = None  # the cache that the run uses

    @property
    def precision(self) -> str:
        return "int8" if self._int8 else super().precision

    def fork(self) -> OnnxTarget:
        twin = super().fork()
        twin._run = twin._bound = None
        return twin

    def session(self) -> Any:
        """The session; None if torch must run this target."""
        weights = graph_weights(self, len(self.layers), self.head)
        if weights is None or head_session(self.head, self._int8) is None:
            return None
        self._tapped.update(self.taps)
        return self._sessions.get(weights, self._graph, len(self._tapped))

    def keep(self, path: Sequence[int]) -> Observation:
        with one_thread():
            return super().keep(path)

    def _graph(self) -> Graph:
        width = self.config.hidden_size
        layers = cast(tuple[Rope, list[DecoderLayer]], self.own)[1]
        graph = Folded(layers) if self._int8 else Graph()
        x = graph.rows(self.embed.weight)
        tapped: dict[int, str] = {}
        last = add_layers(graph, x, self, "text", len(self.layers), tapped=tapped)
        for layer in self._tapped:
            graph.output(f"tap.{layer}", graph.own(tapped[layer]), 1, "n", width)
        graph.output("hidden", last, 1, "n", width)
        return graph

    def _forward(
        self, ids: Sequence[int], positions: Sequence[int], seen: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        cache = self._cache
        if cache is not self._bound and cache is not None:
            session, self._bound = self.session(), cache
            caches = cached(cache, "text", len(self.layers))
            self._run = None if session is None else GraphRun(session, caches, self.embed.weight)
            self._head = None if session is None else Head(self.head, self._int8)
        if self._run is None or self._head is None or cache is None:
            return super()._forward(ids, positions, seen)
        count, width = len(ids), self.config.hidden_size
        if seen is not None and count == 1:  # onnxruntime rounds one row in another way than two
            ids, positions = [*ids, *ids], [*positions, *positions]
            seen = torch.eye(2, dtype=torch.bool)
        names = [*(f"tap.{layer}" for layer in self.taps), "hidden"]
        hidden, step = [], CHUNK if seen is None else len(ids)
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            inputs = rows(ids[part], positions[part], cache.length + start, seen)
            shape = 1, len(ids[part]), width
            hidden.append(self._run(inputs, dict.fromkeys(names, shape)))
        states = [torch.cat(parts, 1)[0] for parts in zip(*hidden, strict=True)]
        logits = self._head(states[-1][-1:] if seen is None else states[-1])
        return torch.cat([one[:count] for one in states], -1), logits[:count]


HEADS: WeakKeyDictionary[nn.Module, dict[bool, Sessions]] = WeakKeyDictionary()
LOCK = Lock()


def head_session(head: Matrix, int8: bool) -> Any:
    """The session of a head, shared by the target and all drafters with its vocabulary. None if
    torch must run it.

    It is apart from the layers' graphs, because each session packs its weights anew.
    """

    def build() -> Graph:
        linear = cast(nn.Linear, head)
        graph = Graph(int8, {id(linear): whole_head(linear)} if int8 else None)
        x = graph.input("states", np.float32, 1, "n", linear.in_features)
        graph.output("logits", *graph.linear(x, linear), 1, "n", linear.out_features)
        return graph

    with LOCK:
        sessions = HEADS.setdefault(head, {}).setdefault(int8, Sessions())
    return sessions.get([*head.parameters()], build)


class Head:
    """A head in one run."""

    def __init__(self, head: Matrix, int8: bool) -> None:
        self._run, self._words = GraphRun(head_session(head, int8), {}), head.out_features

    def __call__(self, states: Tensor) -> Tensor:
        """[n, E] -> logits [n, D]"""
        (logits,) = self._run({"states": states[None]}, {"logits": (1, len(states), self._words)})
        return logits[0]


def accelerate(target: Target, int8: bool = False) -> Target:
    """A target with the same weights that runs as a graph, or the same target if none can.

    UserError if it must be in 8 bits and none can.
    """
    quick = OnnxTarget(target, int8)
    if quick.session() is not None:
        if int8 and largest() < TOP:
            slower()
        return quick
    if int8:
        raise UserError(
            f"{target.name} cannot run in int8: that needs a CPU, and layers as in Llama or Qwen."
        )
    on_cpu = target.device.type == "cpu"
    if on_cpu and graph_weights(target, len(target.layers), target.head) is None:
        log.warning(
            "Torch runs %s: its layers are quantised, or not as in Llama or Qwen.", target.name
        )
    return target


def graph_weights(target: Target, last: int, head: Matrix) -> list[Tensor] | None:
    """The weights of a head and a target's last layers; None if a graph cannot hold them."""
    parts: list[nn.Module] = [target.model.get_input_embeddings(), head]
    plain = [type(part) for part in parts] == [nn.Embedding, nn.Linear]
    if not plain or getattr(target.model, "is_quantized", False):
        return None
    del parts[0]
    if last:
        if target.own is None or target.head_dim % 8:  # required by onnxruntime's attention
            return None
        parts += [target.decoder.norm, *target.own[1][-last:]]
    return [weight for part in parts for weight in part.parameters()]


def add_layers(
    graph: Graph, x: str, target: Target, cache: str, last: int, at: Rows = ROWS,
    tapped: dict[int, str] | None = None,
) -> str:  # fmt: skip
    """A target's last layers, each with its part of a cache, then the final norm.

    tapped  receives the input of each layer
    """
    rope, layers = cast(tuple[Rope, list[DecoderLayer]], target.own)
    rope.reserve(target.context)
    for place, layer in enumerate(layers[-last:]):
        if tapped is not None:
            tapped[place] = x
        x = graph.layer(x, layer, rope, f"{cache}.{place}", at)
    return graph.norm(graph.own(x), target.decoder.norm, target.config.rms_norm_eps)


def cached(cache: KVCache, name: str, layers: int) -> Caches:
    """The cache of `add_layers`."""
    return {f"{name}.{place}": (cache, place) for place in range(layers)}
