"""The command line as one of several CPU processes that `accelerate launch` starts.

accelerate offers FSDP on accelerators alone; it runs on CPUs as well, so that the kind is set from
outside. SPREAD is ddp or fsdp; FAST_CLOCK a rank whose clock runs ahead.
"""

import os
import sys
import time
from types import SimpleNamespace


def run() -> int:
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    PartialState(cpu=True)
    if os.environ["SPREAD"] == "fsdp":
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    from moa_core.__main__ import main
    from moa_core.train import loop

    if os.environ.get("FAST_CLOCK") == os.environ["RANK"]:
        loop.time = SimpleNamespace(monotonic=lambda: 4 * time.monotonic())
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
