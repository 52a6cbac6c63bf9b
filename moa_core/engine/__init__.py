"""Quicker ways to run the same forwards: ONNX graphs on a processor, CUDA graphs on a GPU.

These functions are the way in, and only loading and profiles call them. `model`, `drafters` and
`decoding` are plain torch, which runs all else: other formats, other layers.
"""

from moa_core.engine.cuda import with_graphs
from moa_core.engine.drafters import accelerate_drafter
from moa_core.engine.target import accelerate

__all__ = ["accelerate", "accelerate_drafter", "with_graphs"]
