"""Runs on a GPU as replayed CUDA graphs: `with_graphs` wraps a target, and decoding stays the same.

Whatever changes from cycle to cycle lies in buffers that keep their place: tokens, positions,
masks, how much is verified. Python decides nothing that depends on them.
"""

from moa_core.static.run import with_graphs

__all__ = ["with_graphs"]
