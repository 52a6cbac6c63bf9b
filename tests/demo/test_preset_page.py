"""`python app.py --preset llama3-8b`, whole: from a stand-in for the Hub to text on the page."""

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.hub import Hub, serving
from tests.published import save_published

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def started(*words: str, **environment: str) -> tuple[subprocess.Popen[str], str, list[str]]:
    """The app, its address, and what it says from then on."""
    known = {"GRADIO_ANALYTICS_ENABLED": "False", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    app = subprocess.Popen(
        [sys.executable, "app.py", *words], cwd=ROOT, env=os.environ | known | environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    said: list[str] = []
    address = ""
    assert app.stdout is not None
    for line in app.stdout:
        said.append(line)
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            address = found[0]
            break
    threading.Thread(target=said.extend, args=(app.stdout,), daemon=True).start()
    assert address, "".join(said)
    return app, address, said


@pytest.mark.slow
def test_a_preset_comes_from_the_hub_and_decodes(tmp_path: Path) -> None:
    from gradio_client import Client

    hub = Hub()
    for spec, folder in save_published(tmp_path).items():
        name, _, commit = spec.partition("@")
        hub.put(name, folder, commit=commit, gated="Meta" in name)
    hub.known, hub.granted = {"hf_mine"}, {"hf_mine"}
    with serving(hub) as url:
        app, address, said = started(
            "--preset", "llama3-8b", "--device", "cpu", "--port", str(free_port()),
            HF_ENDPOINT=url, HF_HUB_CACHE=str(tmp_path / "cache"), HF_TOKEN="hf_mine",
        )  # fmt: skip
        try:
            client = Client(address, verbose=False)
            texts = {
                client.predict("The fox", method, 16, api_name="/decode")[0]
                for method in ("moa-n0", "eagle2", "eagle", "vanilla")
            }
        finally:
            app.terminate()
            app.wait(20)
    assert len(texts) == 1
    words = "".join(said)
    assert "Meta-Llama-3-8B-Instruct@8afb486c will need " in words
    assert "Downloading meta-llama/Meta-Llama-3-8B-Instruct@8afb486c: " in words
