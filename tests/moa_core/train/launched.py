"""The command line as one of several CPU processes that `accelerate launch` starts.

accelerate offers FSDP and DeepSpeed on accelerators alone; what they do runs on CPUs as well, so
that the kind is set from outside. SPREAD is ddp, fsdp or deepspeed; FAST_CLOCK a rank whose clock
runs ahead.
"""

import os
import sys
import time
from types import SimpleNamespace

DEEPSPEED = {
    "DS_ACCELERATOR": "cpu",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2",
    "ACCELERATE_GRADIENT_CLIPPING": "1.0",
}


def spread(kind: str) -> None:
    """Make accelerate believe in a way of spreading a model."""
    if kind == "deepspeed":
        os.environ |= DEEPSPEED
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    PartialState(cpu=True)
    if kind == "deepspeed":
        import deepspeed

        deepspeed.init_distributed(dist_backend="gloo")
        PartialState._shared_state["distributed_type"] = DistributedType.DEEPSPEED
    if kind == "fsdp":
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def run() -> int:
    spread(os.environ["SPREAD"])
    from moa_core.__main__ import main
    from moa_core.train import loop

    if os.environ.get("FAST_CLOCK") == os.environ["RANK"]:
        loop.time = SimpleNamespace(monotonic=lambda: 4 * time.monotonic())
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
