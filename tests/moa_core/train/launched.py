"""The command line as one of several CPU processes that `accelerate launch` starts.

FAST_CLOCK is the rank whose clock runs ahead.
"""

import os
import sys
import time
from types import SimpleNamespace

from accelerate import PartialState

from moa_core.__main__ import main
from moa_core.train import loop

if __name__ == "__main__":
    PartialState(cpu=True)
    if os.environ.get("FAST_CLOCK") == os.environ["RANK"]:
        loop.time = SimpleNamespace(monotonic=lambda: 4 * time.monotonic())
    sys.exit(main(sys.argv[1:]))
