"""A stand-in for the Hugging Face Hub, on this machine, with its few endpoints; a tiny bundle."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

from moa_core.model.target import Target
from tests.models import save_bundle, speaking_target

MAIN = "1" * 40  # the commit of every repository's main branch, unless it is given another


@dataclass
class Repository:
    files: dict[str, bytes]
    commit: str = MAIN
    gated: bool = False  # behind a licence: only `granted` tokens may read them
    cut: int | None = None  # bytes of weights after which a download is cut off


@dataclass
class Hub:
    """What the server holds, and what it was asked."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # tokens
    granted: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def put(self, name: str, folder: Path, **options: Any) -> Repository:
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self.repositories[name] = Repository(files, **options)
        return self.repositories[name]


class Refused(Exception):
    """What a request gets instead: status, X-Error-Code and X-Error-Message."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        resumed = " " + self.headers["Range"] if "Range" in self.headers else ""
        self.hub.asked.append(f"{self.command} {path}{resumed}")
        try:
            self._answer([unquote(part) for part in path.strip("/").split("/")])
        except Refused as refused:
            status, code, words = refused.args
            headers = {"X-Error-Message": words, "X-Error-Code": code}
            self._send(status, json.dumps({"error": words}).encode(), headers)

    do_HEAD = do_GET  # `_send` leaves out the body

    def _answer(self, parts: list[str]) -> None:
        hub, token = self.hub, (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        owner, short, *rest = parts[2:] if parts[:2] == ["api", "models"] else parts
        name, what, more = f"{owner}/{short}", rest[:1], rest[1:]
        if token and token not in hub.known:
            raise Refused(401, "", "Invalid credentials in Authorization header")
        if name not in hub.repositories:
            raise Refused(404 if token else 401, "RepoNotFound", "Repository not found")
        repository = hub.repositories[name]
        if more and more[0] not in ("main", repository.commit):
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {more[0]}")
        if what == ["resolve"]:
            if repository.gated and token not in hub.granted:
                said = f"Access to model {name} is restricted."
                raise Refused(403 if token else 401, "GatedRepo", said)
            return self._file(repository, "/".join(more[1:]))
        siblings = [{"rfilename": path} for path in repository.files]
        found: Any = {"id": name, "modelId": name, "sha": repository.commit, "siblings": siblings}
        found["gated"] = repository.gated
        if what == ["tree"]:
            found = [
                {"type": "file", "path": path, "size": len(data), "oid": _digest(data)}
                for path, data in repository.files.items()
            ]
        self._send(200, json.dumps(found).encode(), {})

    def _file(self, repository: Repository, path: str) -> None:
        if path not in repository.files:
            raise Refused(404, "EntryNotFound", "Entry not found")
        data = repository.files[path]
        headers = {"ETag": f'"{_digest(data)}"', "X-Repo-Commit": repository.commit}
        start = int((self.headers.get("Range") or "bytes=0-")[len("bytes=") :].split("-")[0])
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cut = repository.cut if path.endswith(".safetensors") else None
        self._send(206 if start else 200, data[start:], headers, cut)

    def _send(
        self, status: int, data: bytes, headers: dict[str, str], cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(data[:cut])
        if cut is not None:
            self.close_connection = True


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def lead_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As HF_ENDPOINT does, which the library reads when it is imported."""
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", url)


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server until the block ends; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session")
def saved_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundled models; not to be written to."""
    folder = tmp_path_factory.mktemp("bundle")
    save_bundle(folder)
    return folder


@pytest.fixture
def bundle(saved_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the one that names without a path refer to."""
    monkeypatch.setenv("MOA_MODELS", str(saved_bundle))
    return saved_bundle


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for the files that the program makes and keeps."""
    monkeypatch.setenv("MOA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def target() -> Target:
    """With a tokenizer; modules that need another one have their own."""
    return speaking_target()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """In the place of the real one, with an empty cache."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    standing = Hub()
    with answering(type("Handler", (_Handler,), {"hub": standing})) as url:
        lead_to(url, monkeypatch)
        yield standing
