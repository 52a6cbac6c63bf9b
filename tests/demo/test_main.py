"""`moa demo` opens the page of an installed package; tests/browser drives `python app.py`."""

import gc
import os
import re
import socket
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from demo.access import check_port
from moa_core.__main__ import main
from moa_core.errors import EXTRAS, UserError
from tests.models import save_bundle
from tests.serving import free_port, page_of

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The entry points that an installed package has; and no trace of a start that ended."""
    there = EntryPoints(
        EntryPoint(name, value, group)
        for group, named in PROJECT["entry-points"].items()
        for name, value in named.items()
    )
    monkeypatch.setattr("moa_core.__main__.entry_points", there.select)
    yield
    gc.enable()


def test_without_its_extra_a_sentence_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert main(["demo"]) == 2
    said = "error: this needs gradio: pip install 'moa-speculative[demo]'\n"
    assert capsys.readouterr().err == said
    extra = " ".join(PROJECT["optional-dependencies"]["demo"])
    assert all(name in extra for name, wanted in EXTRAS.items() if "demo" in wanted)
    assert PROJECT["name"] == "moa-speculative"


def test_help_names_it_and_imports_nothing_of_it(monkeypatch, capsys):
    monkeypatch.setattr(EntryPoint, "load", lambda point: pytest.fail("it is imported"))
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0 and re.search(r"demo +The page", capsys.readouterr().out)


def test_a_port_that_cannot_be_had_is_told_before_anything_is_loaded(monkeypatch, capsys):
    monkeypatch.setattr("demo.ui.build_demo", lambda *_: pytest.fail("it goes on"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            main(["demo", "--port", str(port)])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and f"moa demo: error: Port {port} is not available" in said
    check_port(port)
    with pytest.raises(UserError, match="65536"):
        check_port(65536)


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (("--host", "192.0.2.1", "--password", "x"), "", "cannot listen on 192.0.2.1"),
        (("--host", "name.invalid", "--password", "x"), "", "cannot listen on name.invalid"),
        (("--target", "nowhere"), "", "There is no model 'nowhere'"),
        (("--target", "moa-n0"), "", "moa-n0 is a drafter"),
        (("--device", "banana"), "", "no device 'banana'"),
        (("--dtype", "int3"), "", "Unknown dtype 'int3'"),
        (("--drafter", "vanilla"), "", "vanilla has no files of its own"),
        ((), "--target 'x", "MOA_OPTIONS cannot be read as options: No closing quotation."),
    ],
)
def test_a_mistake_is_told_before_the_page_is_made(
    monkeypatch, capsys, tmp_path, words, options, said
):
    monkeypatch.setenv("MOA_MODELS", str(tmp_path))
    save_bundle(tmp_path)
    monkeypatch.setattr("demo.ui.build_demo", lambda *_: pytest.fail("it goes on"))
    monkeypatch.setenv("MOA_OPTIONS", options)
    with pytest.raises(SystemExit) as ended:
        main(["demo", *words])
    assert ended.value.code == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert line.startswith("moa demo: error: ") and said in line


def test_where_nothing_can_be_reached_the_page_opens_and_says_what_to_do(tmp_path):
    port = free_port()
    env = {**os.environ, "GRADIO_SERVER_PORT": str(port), "HF_HUB_OFFLINE": "1"}
    env |= {"PIP_NO_INDEX": "1", "MOA_MODELS": str(tmp_path), "MOA_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, str(ROOT / "app.py")]
    with page_of(command, port, tmp_path / "log", env=env) as url:
        client = Client(url, verbose=False)
        with pytest.raises(AppError, match=r"smollm2-135m cannot be downloaded: .* put it into"):
            client.predict("What is the capital of France?", "ngram", api_name="/decode")
