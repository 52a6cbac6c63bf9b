"""Stands in for the Hub where a repository is created and written: the endpoints its client calls.

As there: a file that is no text is for large storage, is sent apart from the commit, and the commit
names it by its hash; plain git takes text alone, and no more than 10 MB of it.
"""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ONE = "1" * 40
MOST = 10_000_000  # bytes of a file in plain git


class TakingHub(ThreadingHTTPServer):
    """`with TakingHub(token) as hub`: files by path, those in large storage, and what was asked."""

    daemon_threads = True

    def __init__(self, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.token = token
        self.created: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.large: set[str] = set()
        self.stored: dict[str, bytes] = {}  # by hash
        self.asked: list[str] = []

    def __enter__(self) -> "TakingHub":
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def answer(self, path: str, sent: bytes) -> tuple[int, Any]:
        """Status and answer to what was sent to a path."""
        match path.split("?")[0].strip("/").split("/"):
            case ["api", "repos", "create"]:
                self.created = json.loads(sent)
                return 200, {"url": f"{self.url}/spaces/someone/moa"}
            case ["api", "validate-yaml"]:
                return 200, {"warnings": [], "errors": []}
            case ["api", "spaces", _, _, "tree", "main"]:
                return 200, [_entry(*one) for one in self.files.items()]
            case ["api", "spaces", _, _, "preupload", "main"]:
                return 200, {"files": [_mode(one) for one in json.loads(sent)["files"]]}
            case ["spaces", _, _, "info", "lfs", "objects", "batch"]:
                return 200, {"objects": [self._place(one) for one in json.loads(sent)["objects"]]}
            case ["stored", name]:
                self.stored[name] = sent
                return 200, {}
            case ["api", "spaces", _, _, "commit", "main"]:
                return self._commit([json.loads(line) for line in sent.splitlines()])
        return 404, {"error": f"no such place: {path}"}

    def _place(self, wanted: dict[str, Any]) -> dict[str, Any]:
        href = f"{self.url}/stored/{wanted['oid']}"
        return wanted | {"actions": {"upload": {"href": href}}}

    def _commit(self, lines: list[dict[str, Any]]) -> tuple[int, Any]:
        for line in lines:
            what = line["value"]
            match line["key"]:
                case "file":
                    data = base64.b64decode(what["content"])
                    if len(data) > MOST or not _text(data):
                        return 400, {"error": f"{what['path']} is not for plain git"}
                    self.files[what["path"]] = data
                case "lfsFile":
                    data = self.stored[what["oid"]]
                    assert hashlib.sha256(data).hexdigest() == what["oid"]
                    self.files[what["path"]] = data
                    self.large.add(what["path"])
                case "deletedFile":
                    del self.files[what["path"]]
        return 200, {"commitUrl": f"{self.url}/spaces/someone/moa/commit/{ONE}", "commitOid": ONE}


class _Handler(BaseHTTPRequestHandler):
    server: TakingHub

    def _do(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append(f"{self.command} {self.path}")
        known = self.headers.get("Authorization") == f"Bearer {self.server.token}"
        stored = self.path.startswith("/stored/")  # its address is its permission
        status, answer = 401, {"error": "Invalid username or password."}
        if known or stored:
            status, answer = self.server.answer(self.path, sent)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = _do

    def log_message(self, *_: object) -> None:
        pass


def _entry(path: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}


def _mode(file: dict[str, Any]) -> dict[str, Any]:
    plain = _text(base64.b64decode(file["sample"])) and file["size"] <= MOST
    mode = "regular" if plain else "lfs"
    return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": None}


def _text(data: bytes) -> bool:
    return b"\0" not in data
