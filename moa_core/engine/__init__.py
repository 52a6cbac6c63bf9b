"""The forwards of small float32 models on a processor as ONNX graphs, run by onnxruntime.

`accelerate` and `accelerate_drafter` are the way in, and only loading calls them. `model`,
`drafters` and `decoding` are plain torch, which runs all else: GPUs, other formats, other layers.
"""

from moa_core.engine.drafters import accelerate_drafter
from moa_core.engine.target import accelerate

__all__ = ["accelerate", "accelerate_drafter"]
