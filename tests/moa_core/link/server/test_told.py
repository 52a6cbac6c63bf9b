"""What the server gives besides: files and health."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moa_core.link import client_weights
from moa_core.link.wire import (
    Fetch,
)
from moa_core.model.target import Target
from tests.attackers import (
    fire,
)
from tests.moa_core.link.server.scene import (
    TARGET,
    TOKEN,
    Served,
    caller,
    drafter_for,
)
from tests.serving import serving

# ---- files ----


def test_files_are_packed_once_for_all_and_go_with_the_server(monkeypatch) -> None:
    written, folders = [], []
    real = client_weights.write

    def write(target: Target, last: int, folder: Any) -> None:
        written.append(last)
        folders.append(folder)
        real(target, last, folder)

    monkeypatch.setattr(client_weights, "write", write)

    def fetch(last: int) -> int:
        with caller(port) as one:
            one.say(Fetch(last))
            total, got = 0, 0
            while (piece := one.hear()).name:
                total, got = piece.total, got + len(piece.data)
            assert got == total
            return total

    with serving(TARGET, drafter_for, TOKEN) as (_, port), ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(fetch, [1] * 8))
        assert written == [1] and len(set(sizes)) == 1
        assert fetch(1024) == fetch(3) > fetch(0) and written == [1, 3, 0]
        assert fetch(2) and fetch(1) == sizes[0] and written == [1, 3, 0, 2, 1]
        assert sum(folder.exists() for folder in folders) == client_weights.WeightFiles.MOST
    assert not any(folder.exists() for folder in folders)


# ---- health ----


def plain(port: int, path: str) -> tuple[str, str]:
    """Head and body of what a plain GET gets."""
    answer = fire(port, f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()).decode()
    head, _, body = answer.partition("\r\n\r\n")
    return head, body


def test_health_and_other_places(served: Served) -> None:
    head, body = plain(served[1], "/health")
    assert head.startswith("HTTP/1.1 200 OK")
    assert body == f"ok: {TARGET.name}, 0 sessions, 1 waiting\n"
    assert "text/plain" in head and "server:" not in head.lower()
    with caller(served[1]):
        assert ", 1 sessions, 1 waiting" in plain(served[1], "/health")[1]
    for path in ("/", "/health/", "/metrics", "/favicon.ico"):
        assert plain(served[1], path)[0].startswith("HTTP/1.1 426")
