"""What the server gives besides: files, health and metrics."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from moa_core.link import parcel
from moa_core.link.wire import (
    Fetch,
    Refused,
    Stream,
    Verify,
)
from moa_core.target import Target
from tests.attackers import (
    fire,
)
from tests.moa_core.link.server.scene import (
    GREEDY,
    TARGET,
    TOKEN,
    Served,
    begun,
    caller,
    check_good_client,
    drafter_for,
)
from tests.serving import Caller, serving

# ---- files ----


def test_files_are_packed_once_for_all_and_go_with_the_server(monkeypatch) -> None:
    written, folders = [], []
    real = parcel.write

    def write(target: Target, last: int, folder: Any) -> None:
        written.append(last)
        folders.append(folder)
        real(target, last, folder)

    monkeypatch.setattr(parcel, "write", write)

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
        assert sum(folder.exists() for folder in folders) == parcel.Parcels.MOST
    assert not any(folder.exists() for folder in folders)


# ---- health and metrics ----


def plain(port: int, path: str) -> tuple[str, str]:
    """Head and body of what a plain GET gets."""
    answer = fire(port, f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()).decode()
    head, _, body = answer.partition("\r\n\r\n")
    return head, body


def counted(port: int) -> dict[str, float]:
    """Every sample of the metrics, by its name and its labels."""
    head, body = plain(port, "/metrics")
    assert head.startswith("HTTP/1.1 200") and "version=0.0.4" in head
    return {
        sample.name + json.dumps(sample.labels) * bool(sample.labels): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }


def test_health_and_other_places(served: Served) -> None:
    head, body = plain(served[1], "/health")
    assert head.startswith("HTTP/1.1 200 OK") and body == f"ok: {TARGET.name}\n"
    assert "text/plain" in head and "server:" not in head.lower()
    for path in ("/", "/health/", "/metrics?x=1", "/favicon.ico"):
        assert plain(served[1], path)[0].startswith("HTTP/1.1 426")


def test_metrics_count_what_was_sent_asked_and_gained(served: Served) -> None:
    port = served[1]
    assert counted(port)["moa_sessions"] == 0
    one = begun(port)
    one.ask(Verify(2, 7, [GREEDY[0], GREEDY[1], 63 - GREEDY[2]], [-1, 0, 1]))
    one.ask(Verify(2, 7, [GREEDY[0], GREEDY[1], 63 - GREEDY[2]], [-1, 0, 1]))
    one.say(Stream(3, 9, GREEDY[2], 5))
    assert [one.hear().token for _ in range(5)] == GREEDY[3:8]
    one.ask(Verify(4, 14, [GREEDY[7], 1, 2], [-1, 0, 1], keep=True))
    now = counted(port)
    assert now["moa_sessions"] == 1 and now["moa_waiting"] == 1  # who asks for this
    assert now["moa_gained_tokens_total"] == 1 + 2 + 0 + 5 + 1
    assert now["moa_received_bytes_total"] == one.sent
    assert now["moa_sent_bytes_total"] == one.received
    requests = {name: now[f'moa_requests_total{{"kind": "{name}"}}'] for name in (
        "prefill", "verify", "stream",
    )}  # fmt: skip
    assert requests == {"prefill": 1, "verify": 3, "stream": 1}
    assert 0 < now["moa_work_seconds_total"] < 20 and now["moa_refused_total"] == 0
    assert isinstance(one.ask(b"\xc1"), Refused)
    Caller(port, "guess").close()
    later = counted(port)
    assert later["moa_refused_total"] == 2 and later["moa_sessions"] == 0
    assert later["moa_gained_tokens_total"] == 9


def test_two_servers_count_for_themselves(served: Served) -> None:
    with serving(TARGET, drafter_for, TOKEN) as (_, port):
        check_good_client(port)
        assert counted(port)["moa_gained_tokens_total"] >= 24
    assert counted(served[1])["moa_gained_tokens_total"] == 0
