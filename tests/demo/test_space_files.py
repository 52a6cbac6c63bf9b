"""A Space from its files alone: the folder that is sent, started as a Space starts it."""

import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from gradio_client import Client
from gradio_client.exceptions import AppError

from demo import static
from demo.space import folder as space_folder
from demo.space.folder import FLAVORS, PREVIEW, write
from tests.models import save_bundle
from tests.serving import free_port, page_of

ROOT = Path(__file__).parents[2]
PROMPT = "What is 3 + 4?"
KEPT = ("PATH", "LANG", "OMP_NUM_THREADS", "PYENV_VERSION", "PYENV_ROOT")  # of our environment


@pytest.fixture
def program(tmp_path):
    """The files; beside them tiny models, and a folder for what is temporary."""
    (tmp_path / "tmp").mkdir()
    save_bundle(tmp_path / "models")
    write(tmp_path / "app", "cpu")
    return tmp_path / "app"


@contextmanager
def a_space(program, python, **more):
    """`python app.py` with what a Space sets: its address and its log."""
    port = free_port()
    own = program.parent / "tmp"
    env = {name: os.environ[name] for name in KEPT if name in os.environ} | {
        "SPACE_ID": "someone/moa", "SPACE_HOST": "someone-moa.hf.space", "SYSTEM": "spaces",
        "GRADIO_SERVER_NAME": "0.0.0.0", "GRADIO_SERVER_PORT": str(port),
        "GRADIO_SSR_MODE": "True", "HOME": str(program), "TMPDIR": str(own),
        "CUDA_VISIBLE_DEVICES": "", "MOA_MODELS": str(program.parent / "models"),
        "MOA_CACHE": str(own / "cache"), **more,
    }  # fmt: skip
    log = own / "log.txt"
    with page_of([python, "app.py"], port, log, cwd=program, env=env) as url:
        yield url, log


def decodes_losslessly(url, log):
    """Two methods through the page's endpoint: the same text, and one of them in fewer calls."""
    client = Client(url, verbose=False)
    endpoints = client.view_api(print_info=False, return_format="dict")["named_endpoints"]
    assert set(endpoints) == {"/decode"}
    plain, slow = client.predict(PROMPT, "none", 24, api_name="/decode")
    job = client.submit(PROMPT, "moa-n1", 24, api_name="/decode")
    drafted, fast = job.result(60)
    assert plain and drafted == plain and fast["calls"] < slow["calls"]
    assert len(job.outputs()) > 1 and all(plain.startswith(part) for part, _ in job.outputs())
    with pytest.raises(AppError, match="depth"):
        client.predict(PROMPT, depth=99, api_name="/decode")
    assert "so the small default model runs here" in str(client.config)
    # gradio misses a package that a Space brings, in a thread of its own; and where a process was
    # forked from one with an event loop, that loop's end is noted.
    said = log.read_text()
    known = said.count("hot-reloading in Spaces") + said.count("BaseEventLoop.__del__")
    assert said.count("Traceback") == known, said


LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("hardware", FLAVORS)
def test_the_folder_is_whole_small_enough_for_git_and_has_its_own_requirements(hardware, tmp_path):
    folder = tmp_path / "space"
    write(folder, hardware, "someone/moa")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 10_000_000
    dead = [
        (page.name, link)
        for page in files
        if page.suffix == ".md"
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert not dead
    _, front, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["suggested_hardware"] == FLAVORS[hardware]
    picture = card.get("thumbnail", "").removeprefix(
        "https://huggingface.co/spaces/someone/moa/resolve/main/"
    )
    assert picture == (PREVIEW if (ROOT / PREVIEW).exists() else "")
    ours = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    torch = re.search(r"torch==(\S+)", ours)[1]
    wanted = {"gpu": ours, "cpu": f"torch=={torch}+cpu", "zero": "torch==2.11.0\n"}[hardware]
    pins = (folder / "requirements.txt").read_text(encoding="utf-8")
    assert wanted in pins and pins.count("gradio==") == 1
    assert (pins == ours) == (hardware == "gpu")
    assert ("bitsandbytes" in pins) == (hardware != "cpu")


@pytest.mark.parametrize("program", [space_folder, static])
def test_what_is_no_new_folder_is_left_alone(program, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    for out, words in (("full", "is not empty"), ("full/mine.txt", "is a file: name a folder.")):
        assert program.main([str(tmp_path / out)]) == 2
        told = capsys.readouterr().err
        assert told.startswith("error: ") and words in told and told.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_the_files_that_are_sent_are_enough_and_nothing_else_is_written(program):
    before = sorted(program.rglob("*"))
    with a_space(program, sys.executable, PYTHONDONTWRITEBYTECODE="1") as (url, log):
        decodes_losslessly(url, log)
    assert sorted(program.rglob("*")) == before
    assert not any((program / name).exists() for name in (".git", "pyproject.toml"))
