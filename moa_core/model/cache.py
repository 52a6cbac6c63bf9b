"""Keys and values, allocated once and written in place. All cache changes are in this file."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class KVCache:
    """K and V of consecutive layers for one sequence; transformers' layers take it as their cache.

    The layers share a block [layers, 2, kv_heads, capacity, head_dim]. `length` slots are in use. A
    forward writes after them; its slots count only after `advance` or `keep`, so rejected drafts
    need no cleanup.

    first_layer  index in the model of the first layer held here
    """

    def __init__(
        self, device: torch.device, kv_heads: int, head_dim: int, capacity: int, dtype: torch.dtype,
        layers: int = 1, first_layer: int = 0,
    ) -> None:  # fmt: skip
        self.capacity, self.device = capacity, device
        self.length = 0
        self._first = first_layer
        shape = (layers, 2, kv_heads, capacity, head_dim)
        self._block = torch.empty(shape, dtype=dtype, device=device)
        # K and V of each layer, [1, kv_heads, capacity, head_dim]: made once, used at each call.
        self._views = [layer.unsqueeze(1).unbind() for layer in self._block]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write [1, G, n, d] after the slots in use; return K and V [1, G, length + n, d]."""
        keys, values = self._views[layer_idx - self._first]
        count = key_states.shape[-2]
        keys.narrow(2, self.length, count).copy_(key_states)
        values.narrow(2, self.length, count).copy_(value_states)
        return keys.narrow(2, 0, self.length + count), values.narrow(2, 0, self.length + count)

    def advance(self, count: int) -> None:
        """Count the last `count` slots written as in use."""
        self.length += count

    def truncate(self, length: int) -> None:
        """Forget every slot from `length` on."""
        self.length = length

    def keep(self, slots: Sequence[int]) -> None:
        """Keep these of the slots just written (ascending, counted from `length`), without gaps."""
        if list(slots) != list(range(len(slots))):  # else they are where they belong
            end = self.length + len(slots)
            source = torch.tensor(slots, device=self.device) + self.length
            self._block[..., self.length : end, :] = self._block.index_select(-2, source)
        self.length += len(slots)

    def layer(self, place: int = 0) -> tuple[Tensor, Tensor]:
        """Views of all slots of a layer, in use or not: K and V [1, kv_heads, capacity, head_dim].

        place  counted from the first layer held here
        """
        keys, values = self._views[place]
        return keys, values

    def append(self, keys_values: Tensor) -> None:
        """Write K and V computed elsewhere, [layers, 2, G, n, d], and count them as in use."""
        count = keys_values.shape[-2]
        self._block.narrow(-2, self.length, count).copy_(keys_values)
        self.length += count

    def read(self, start: int, stop: int, last: int | None = None) -> Tensor:
        """K and V of slots start..stop, for all layers or the last few: [layers, 2, G, n, d].

        A view: read it before the next write.
        """
        first = 0 if last is None else len(self._views) - last
        return self._block[first:, ..., start:stop, :]


def token_vectors(keys_values: Tensor) -> Tensor:
    """LSA's input: a vector per token and layer, heads outermost [k_h0, v_h0, k_h1, v_h1, ...].

    keys_values  [L, 2, G, n, d] -> [n, L, 2 * G * d]
    """
    layers, _, heads, count, size = keys_values.shape
    return keys_values.permute(3, 0, 2, 1, 4).reshape(count, layers, 2 * heads * size)
