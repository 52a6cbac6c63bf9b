"""Layers of a drafter, chained: one call of a compiled kernel does them all.

A chain belongs to one decoding run, whose caches it writes to; weights are packed once for all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moa_core.model.cache import Held, KVCache
from moa_core.native.packing import (
    CrossAttention,
    FeedForward,
    KeysValues,
    LayerAttention,
    Matrix,
    Part,
    Scale,
    SelfAttention,
)
from moa_core.native.steps import FEED, ITSELF, LINEAR, MEMORY, NORM, STEP
from moa_core.native.switch import kernels, most_rows

Floats = NDArray[np.float32]
NO_NODES = np.empty((0, 0), np.bool_)
KINDS = {"weights": np.int8, "done": np.int64}  # of what is at an address; else float32


class Tables(Protocol):
    """Positions by table, as `layers.Rope` has them."""

    def tables(self) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True)
class Link:
    """One step of a chain: its weights; where it attends, its positions and a layer's cache."""

    kind: int
    part: Part
    rope: Tables | None = None
    held: Held | None = None


class Layer:
    """A decoder layer, packed."""

    def __init__(self, layer: Any, over_memory: bool = False) -> None:
        norm = getattr(layer, "input_layernorm", None)  # EAGLE's layer has none
        kind = CrossAttention if over_memory else SelfAttention
        self._attention = kind(layer.self_attn, norm)
        self._feed = FeedForward(layer.mlp, layer.post_attention_layernorm)
        self._kind = MEMORY if over_memory else ITSELF

    def links(self, rope: Tables, cache: KVCache, place: int = 0) -> list[Link]:
        """Through a layer's part of a cache: its own, or a memory."""
        return [
            Link(self._kind, self._attention, rope, cache.held(place)),
            Link(FEED, self._feed),
        ]


class Joint:
    """GLIDE's layer, packed: over itself, over the target's last layer, and its norm at the end."""

    def __init__(self, net: Any) -> None:
        self._own = SelfAttention(net.self_attn, net.input_layernorm)
        self._crossed = CrossAttention(net.cross_attn, net.cross_attn_layernorm)
        self._feed = FeedForward(net.mlp, net.post_attention_layernorm)
        self._norm = Scale(net.norm)

    def links(self, rope: Tables, text: KVCache, memory: KVCache) -> list[Link]:
        """Through a cache of its own, and what the target's last layer holds."""
        return [
            Link(ITSELF, self._own, rope, text.held(0)),
            Link(MEMORY, self._crossed, rope, memory.held(0)),
            Link(FEED, self._feed),
            Link(NORM, self._norm),
        ]


class Norm:
    """A norm, packed."""

    def __init__(self, norm: nn.Module) -> None:
        self._scale = Scale(norm)

    def links(self) -> list[Link]:
        return [Link(NORM, self._scale)]


class Product:
    """A linear layer, packed."""

    def __init__(self, linear: nn.Linear) -> None:
        self._matrix = Matrix(linear)

    def links(self) -> list[Link]:
        return [Link(LINEAR, self._matrix)]


class LayerMemory:
    """MoA's LSA, and what makes CA's K and V of it, packed."""

    def __init__(self, net: Any) -> None:
        lsa, ca = net.layer_self_attention, net.cross_attention
        self._lsa = LayerAttention(lsa.self_attn, lsa.input_layernorm)
        self._feed = FeedForward(lsa.mlp, lsa.post_attention_layernorm)
        self._matrix = Matrix(net.Ekv2E)
        self._asked = KeysValues(ca.self_attn, ca.input_layernorm)

    def links(self, layers: Tables, rope: Tables) -> list[Link]:
        """With positions of layers, and of tokens."""
        return [
            Link(ITSELF, self._lsa, layers),
            Link(FEED, self._feed),
            Link(LINEAR, self._matrix),
            Link(ITSELF, self._asked, rope),
        ]


class Steps:
    """Layers as kernels are given them: records with addresses.

    name  for a profile
    """

    def __init__(self, name: str, *links: Sequence[Link]) -> None:
        self.name = name
        self._links = [link for each in links for link in each]
        self._fits = all(link.part.fits for link in self._links)
        self._steps: NDArray[Any] | None = None
        self._kept: list[Any] = []  # arrays whose addresses the steps hold
        self._slots = self._positions = sys.maxsize  # that all of them have

    def serves(self, rows: int) -> bool:
        """Whether kernels do so many rows."""
        return self._fits and rows <= most_rows() and kernels() is not None

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy: what has no addresses, as arrays of its own are elsewhere."""
        return self.__dict__ | {"_steps": None, "_kept": []}

    def _made(self) -> NDArray[Any]:
        """The steps: made when first asked for, as kernels say how weights are packed."""
        if self._steps is None:
            self._steps = self._all()
        return self._steps

    def _all(self) -> NDArray[Any]:
        steps = np.zeros(len(self._links), STEP)
        for step, link in zip(steps, self._links, strict=True):
            weights, vectors, step["number"], step["eps"] = link.part.packed()
            step["kind"], step["bytes"], step["numbers"] = link.kind, weights.size, vectors.size
            self._point(step, weights=weights, vectors=vectors)
            if link.rope is not None:
                cos, sin = link.rope.tables()
                step["positions"], step["size"] = cos.shape
                self._positions = min(self._positions, len(cos))
                self._point(step, cos=cos, sin=sin)
            if link.held is not None:
                keys, turned, values = link.held.arrays
                step["groups"], step["slots"], _ = keys.shape
                self._slots = min(self._slots, keys.shape[1])
                self._point(step, keys=keys, turned=turned, values=values, done=link.held.done)
        return steps

    def _point(self, step: Any, **arrays: NDArray[Any]) -> None:
        for name, array in arrays.items():
            assert array.flags.c_contiguous and array.dtype == KINDS.get(name, np.float32)
            step[name] = array.ctypes.data
            self._kept.append(array)


class Chain(Steps):
    """Layers that one call does, one after the other."""

    def __init__(self, name: str, *links: Sequence[Link]) -> None:
        super().__init__(name, *links)
        attending = [link for link in self._links if link.kind in (ITSELF, MEMORY)]
        self._fits = self._fits and all(link.held is not None for link in attending)
        self._own = any(link.kind == ITSELF for link in attending)

    def __call__(
        self,
        hidden: Tensor,
        start: int = 0,
        position: int = 0,
        memory: int = 0,
        seen: Tensor | None = None,
    ) -> Tensor:
        """hidden [1, n, in] -> [1, n, out]; IndexError for what its caches have no room for

        start     slot of caches of its own that the first row goes to; all before it are seen
        position  of the first row
        memory    slots of a memory that are there, all of which are seen
        seen      [n, m] bool: rows are nodes at one position, each of which sees these of the last
                  m slots; None: they follow one another in the text
        """
        # Kernels are compiled for arrays in one piece: any other would compile them once more.
        rows = np.ascontiguousarray(hidden.numpy()[0])
        nodes = NO_NODES if seen is None else np.ascontiguousarray(seen.numpy())
        steps, text = self._made(), seen is None
        stop, turned = start + len(rows), position + (len(rows) if text else 1)
        below = nodes.shape[1] if self._own else 0
        if max(stop, memory) > self._slots or turned > self._positions or below > stop:
            raise IndexError("a chain of kernels is asked beyond its caches")  # they do not look
        found = kernels().chain(steps, rows, start, position, memory, text, nodes)
        return torch.from_numpy(found).unsqueeze(0)


def ready(chain: Chain | None, rows: int) -> TypeGuard[Chain]:
    """Whether there is a chain that does so many rows; if not, torch has to."""
    return chain is not None and chain.serves(rows)


class Remember(Steps):
    """MoA's server half: LSA for the last layer of each token, and CA's K and V of it."""

    def remember(self, seen: NDArray[np.float32], start: int, stop: int) -> Tensor:
        """These slots of a target's cache, [L, 2, G, slots, d] in all -> CA's [1, 2, G, n, d]."""
        steps = self._made()
        if stop > min(seen.shape[3], steps[3]["positions"]) or len(seen) > steps[0]["positions"]:
            raise IndexError("kernels are asked to remember what is not there")
        return torch.from_numpy(kernels().remember(steps, seen, start, stop)).unsqueeze(0)
