"""A quicker way to run the same forwards on a processor: ONNX graphs.

These functions are the way in, and only loading calls them. `model`, `drafters` and `decoding` are
plain torch, which runs all else: other formats, other layers, GPUs.
"""

import os

# From its import on, onnxruntime sends events to its maker unless this says otherwise.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from moa_core.engine.drafters import accelerate_drafter
from moa_core.engine.target import accelerate

__all__ = ["accelerate", "accelerate_drafter"]
