"""What goes to a Space, and how: against a stand-in that speaks the Hub's protocol."""

import re
import shutil
import subprocess

import pytest
from huggingface_hub import HfApi, constants

from demo import upload_space
from demo.upload_space import ROOT, ZERO_TORCH, files, listing, main, stage, torch_for, with_torch
from moa_core.errors import UserError
from tests.taking_hub import TakingHub

NAME, TOKEN = "someone/moa", "hf_stand_in"


@pytest.fixture
def small(tmp_path):
    """A program of a few files, some of which must not go."""
    root = tmp_path / "program"
    for path in ("README.md", "app.py", "demo/ui.py", "demo/static/page.css", "moa_core/a/b.py",
                 "assets/models/m/model.safetensors", "assets/pictures/live.png",
                 "tests/test_it.py", ".git/config", ".env", "demo/.secret", "runs/big.bin",
                 "demo/__pycache__/ui.cpython-312.pyc", "pyproject.toml", ".ci/run"):  # fmt: skip
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        binary = path.endswith((".safetensors", ".png"))
        (root / path).write_bytes(b"\0binary" * 999 if binary else path.encode())
    (root / "requirements.txt").write_text("torch==2.13.0\ntorchvision==1.0\ngradio==6.31.0\n")
    (root / "README.md").write_text("---\ntitle: small\nsdk: gradio\n---\n")
    return root


GOES = [
    "README.md", "app.py", "assets/models/m/model.safetensors", "assets/pictures/live.png",
    "demo/static/page.css", "demo/ui.py", "moa_core/a/b.py", "requirements.txt",
]  # fmt: skip


def test_only_what_is_wanted_goes(small, tmp_path):
    assert [path.as_posix() for path in files(small)] == GOES
    folder = tmp_path / "staged"
    folder.mkdir()
    stage(folder, root=small)
    assert files(folder) == files(small)
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == [
        folder / name for name in GOES
    ]
    assert listing(folder).splitlines()[-1].endswith("  in 8 files")


def of_git(*options):
    """Files that git lists."""
    said = subprocess.run(
        ["git", "ls-files", *options], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(said.stdout.splitlines())


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="no clone")
def test_nothing_goes_that_is_not_in_the_repository():
    """And nothing of the program stays behind."""
    known = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = set(known.stdout.splitlines())
    goes = {path.as_posix() for path in files()}
    new = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert goes <= tracked | set(new.stdout.splitlines())
    left = {path for path in tracked - goes if path.startswith(("demo/", "moa_core/", "assets/"))}
    assert not left and {"app.py", "README.md", "requirements.txt", "LICENSE"} <= goes
    assert max((ROOT / path).stat().st_size for path in goes) < 10_000_000


def test_another_torch_can_be_asked_for(small, tmp_path):
    stage(tmp_path, "2.11.0", small)
    assert (tmp_path / "requirements.txt").read_text() == (
        "torch==2.11.0\ntorchvision==1.0\ngradio==6.31.0\n"
    )
    assert (
        torch_for("zero-a10g", None) == ZERO_TORCH and torch_for("zero-a10g", "2.12.0") == "2.12.0"
    )
    assert torch_for("cpu-basic", None) is torch_for(None, None) is None
    ours = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert f"torch=={ZERO_TORCH}\n" in with_torch(ours, ZERO_TORCH)
    with pytest.raises(UserError, match="no version of torch"):
        with_torch(ours, "new; rm")


@pytest.fixture
def hub(small, monkeypatch):
    """The command, on the small program and a stand-in for the Hub."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the way that a stand-in can follow
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(upload_space, "get_token", lambda: TOKEN)
    monkeypatch.setattr(
        upload_space, "stage", lambda folder, torch=None: stage(folder, torch, small)
    )
    with TakingHub(TOKEN) as there:
        monkeypatch.setattr(upload_space, "HfApi", lambda: HfApi(endpoint=there.url, token=TOKEN))
        yield there


def test_the_hub_gets_every_file_once_and_weights_as_large_ones(hub, small, capsys):
    hub.files = {"old.py": b"gone", "app.py": b"before", ".gitattributes": b"theirs"}
    assert main([NAME, "--private", "--hardware", "zero-a10g"]) == 0
    made = {"name": "moa", "organization": "someone", "type": "space", "sdk": "gradio"}
    assert hub.created.items() >= (made | {"hardware": "zero-a10g"}).items()
    assert sorted(hub.files) == [".gitattributes", *GOES]
    assert hub.large == {"assets/models/m/model.safetensors", "assets/pictures/live.png"}
    for name in GOES[1:-1]:
        assert hub.files[name] == (small / name).read_bytes()
    assert f"torch=={ZERO_TORCH}".encode() in hub.files["requirements.txt"]
    said = capsys.readouterr().out
    assert "in 8 files" in said and f"spaces/{NAME}" in said and "HF_TOKEN" in said
    assert TOKEN not in said


def test_a_dry_run_lists_and_sends_nothing(hub, capsys):
    assert main([NAME, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert [line.split()[1] for line in said.splitlines()[:-1]] == GOES
    assert all(re.match(r" +[\d,]+ ", line) for line in said.splitlines())
    assert hub.asked == []


def test_without_a_token_it_says_what_to_do(hub, monkeypatch, capsys):
    monkeypatch.setattr(upload_space, "get_token", lambda: None)
    assert main([NAME]) == 2
    assert "settings/tokens" in capsys.readouterr().err and hub.asked == []


@pytest.mark.parametrize("name", ["moa", "a/b/c", "some one/moa", ""])
def test_a_wrong_name_is_refused_before_anything_is_sent(hub, name, capsys):
    assert main([name]) == 2
    assert capsys.readouterr().err.strip() and hub.asked == []


def test_what_the_hub_refuses_is_told_in_its_words(hub, capsys):
    hub.token = "another"
    assert main([NAME]) == 2
    said = capsys.readouterr().err
    assert said.startswith("The Hub did not take it: ") and "Traceback" not in said
    assert hub.files == {}
