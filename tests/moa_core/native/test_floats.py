"""Kernels where processors have no instruction for sums of whole numbers."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from moa_core.native.machine import available
assert not available()
import pytest
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="features of another processor")
def test_products_of_floating_point(tmp_path: Path) -> None:
    env = os.environ | {"NUMBA_CPU_FEATURES": "+avx2,+fma", "NUMBA_CACHE_DIR": str(tmp_path)}
    tests = [str(Path(__file__).with_name(name)) for name in ("test_chains.py", "test_drafting.py")]
    done = subprocess.run(
        [sys.executable, "-c", CODE, *tests], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
