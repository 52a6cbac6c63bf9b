"""The target's forward as a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from moa_core.decoding.trace import Drafted
from moa_core.decoding.verifier import Answer, Asked, LocalVerifier, Verifier
from moa_core.drafters.base import Drafter
from moa_core.engine.graph import ROWS, Graph
from moa_core.engine.session import Caches, Run, Sessions, one_thread, rows
from moa_core.model.cache import KVCache
from moa_core.model.layers import DecoderLayer, Rope
from moa_core.model.target import Matrix, Observation, Target

CHUNK = 256  # prompt tokens read at once: each has attention scores for all tokens before it


class OnnxVerifier(LocalVerifier):
    def verify(self, drafted: Drafted) -> Asked[Answer]:
        with one_thread():
            return (yield from super().verify(drafted))


class OnnxTarget(Target):
    """A target that reads and verifies with a float32 graph; torch does the rest."""

    def __init__(self, target: Target) -> None:
        self.__dict__.update(target.__dict__)
        self._sessions: defaultdict[tuple[int, ...], Sessions] = defaultdict(Sessions)  # by taps
        self._run: Run | None = None
        self._bound: KVCache | None = None  # the cache that the run uses

    def fork(self) -> OnnxTarget:
        twin = super().fork()
        twin._run = twin._bound = None
        return twin

    def session(self) -> Any:
        """The session; None if torch must run this target."""
        weights = graph_weights(self, len(self.layers), self.head)
        return None if weights is None else self._sessions[self.taps].get(weights, self._graph)

    def verifier(self, drafter: Drafter) -> Verifier:
        return OnnxVerifier(self, drafter)

    def keep(self, path: Sequence[int]) -> Observation:
        with one_thread():
            return super().keep(path)

    def _graph(self) -> Graph:
        graph, width = Graph(), self.config.hidden_size
        x = graph.rows(self.embed.weight)
        tapped: dict[int, str] = {}
        last = add_layers(graph, x, self, "text", len(self.layers), tapped=tapped)
        states = [*(tapped[layer] for layer in self.taps), last]
        hidden = graph.op("Concat", *states, axis=-1) if self.taps else last
        graph.output("hidden", hidden, 1, "n", len(states) * width)
        add_head(graph, graph.from_first(last), self.head)
        return graph

    def _forward(
        self, ids: Sequence[int], positions: Sequence[int], seen: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        cache = self._cache
        if cache is not self._bound and cache is not None:
            session, self._bound = self.session(), cache
            caches = cached(cache, "text", len(self.layers))
            self._run = None if session is None else Run(session, caches, self.embed.weight)
        if self._run is None or cache is None:
            return super()._forward(ids, positions, seen)
        hidden, logits, step = [], torch.empty(0), CHUNK if seen is None else len(ids)
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            inputs = rows(ids[part], positions[part], cache.length + start, seen)
            shape = 1, 1 if seen is None else len(ids), self.head.out_features
            states = 1, len(ids[part]), (len(self.taps) + 1) * self.config.hidden_size
            found, logits = self._run(inputs, hidden=states, logits=shape)
            hidden.append(found[0])
        return torch.cat(hidden), logits[0]


def accelerate(target: Target) -> Target:
    """A target with the same weights that runs as a graph, or the same target if none can."""
    quick = OnnxTarget(target)
    return target if quick.session() is None else quick


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
    graph: Graph, x: str, target: Target, cache: str, last: int, at: tuple[str, str] = ROWS,
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
    return graph.norm(x, target.decoder.norm, target.config.rms_norm_eps)


def add_head(graph: Graph, x: str, head: Matrix) -> None:
    """Add the output `logits` [1, rows, D] for x [1, rows, E]."""
    graph.output("logits", graph.linear(x, cast(nn.Linear, head)), 1, "rows", head.out_features)


def cached(cache: KVCache, name: str, layers: int) -> Caches:
    """The cache of `add_layers`."""
    return {f"{name}.{place}": (cache, place) for place in range(layers)}
