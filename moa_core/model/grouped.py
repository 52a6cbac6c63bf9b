"""Attention whose heads share K and V in groups, under a mask, on a GPU."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def grouped_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Q [1, H, n, d] attend to K and V [1, G, m, d] under a mask [1, 1, n, m]: [1, H, n, d].

    Each group counts as a text of its own, whose heads see one K and V that is not copied. With
    `enable_gqa` and a mask torch has no fast kernel for it: it would write out K and V for each
    head, and all the weights.
    """
    groups, each = keys.shape[1], queries.shape[1] // keys.shape[1]
    apart = queries[0].unflatten(0, (groups, each))  # [G, H / G, n, d]
    keys, values = (one[0][:, None].expand(-1, each, -1, -1) for one in (keys, values))
    return F.scaled_dot_product_attention(apart, keys, values, mask).flatten(0, 1)[None]
