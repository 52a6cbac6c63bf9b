"""onnxruntime reports nothing: on Linux its import alone writes a device id and events to send."""

import os
import subprocess
import sys


def test_the_engine_keeps_no_events_to_send(tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    env |= {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("ORT_DISABLE_TELEMETRY", None)
    code = "import moa_core.engine, onnxruntime"
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=120)
    assert not list(tmp_path.rglob("*"))
