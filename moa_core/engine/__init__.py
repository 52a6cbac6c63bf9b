"""A faster way to run the same forwards on a CPU: ONNX graphs.

Only `loading` calls these functions. `model`, `drafters` and `decoding` are plain torch, which also
runs other formats, other layers and GPUs.
"""

import os

# Unless this is set before its import, onnxruntime sends telemetry.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from moa_core.engine.drafters import accelerate_drafter
from moa_core.engine.target import accelerate

__all__ = ["accelerate", "accelerate_drafter"]
