"""`vllm serve` in a process of its own, asked by curl and by OpenAI's client."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import COUNT, MOA

pytestmark = pytest.mark.slow


@pytest.fixture
def address(folder: Path, tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder),
        "--served-model-name", "smollm2", "--dtype", "float32", "--max-model-len", "512",
        "--enforce-eager", "--host", "127.0.0.1", "--port", str(port),
        "--speculative-config", json.dumps(MOA),
        "--additional-config", json.dumps({"moa": {"drafter": "moa-n0"}}),
    ]  # fmt: skip
    kept = {key: one for key, one in os.environ.items() if key != "VLLM_ENABLE_V1_MULTIPROCESSING"}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, env=kept, stdout=log, stderr=log, start_new_session=True)
        try:
            for _ in range(500):
                assert server.poll() is None, (tmp_path / "log").read_text()[-4000:]
                if curl(f"http://127.0.0.1:{port}/health", "--fail") is not None:
                    break
                time.sleep(1)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)


def curl(*given: str) -> str | None:
    done = subprocess.run(["curl", "-s", *given], capture_output=True, text=True)
    return None if done.returncode else done.stdout


def test_curl_a_client_and_the_metrics(address: str) -> None:
    import openai

    asked = {"model": "smollm2", "temperature": 0, "max_tokens": 24}
    asked["messages"] = [{"role": "user", "content": "Count from one to ten."}]
    head = "Content-Type: application/json"
    said = curl(f"{address}/v1/chat/completions", "-H", head, "-d", json.dumps(asked))
    text = json.loads(said or "")["choices"][0]["message"]["content"]
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
    again = client.chat.completions.create(**asked)
    assert text and again.choices[0].message.content == text
    metrics = curl(f"{address}/metrics") or ""

    def values(name: str) -> list[float]:
        found = re.findall(rf"^vllm:spec_decode_{name}{{.*}} (\S+)$", metrics, re.MULTILINE)
        return [float(one) for one in found]

    assert values("num_drafts_total")[0] > 10
    assert values("num_accepted_tokens_total")[0] > 0
    assert len(values("num_accepted_tokens_per_pos_total")) == COUNT
