"""A server that is killed at random moments while clients decode.

Two minutes: pytest -m slow tests/moa_core/link/test_kills.py
"""

import random
import subprocess
from pathlib import Path
from time import sleep

import pytest

from moa_core.link.connection import Address
from moa_core.link.fetch import client_target
from moa_core.link.network import link
from moa_core.link.program import ProxyProgram
from moa_core.trace import LinkBack, LinkDown, OfflineToken
from moa_core.verify import Sampling
from tests.moa_core.link.test_processes import (
    SAMPLED,
    Client,
    free_port,
    local,
    started,
    told,
)
from tests.serving import until

pytestmark = pytest.mark.slow
FAR = "rtt=250,jitter=20,down=20,up=20"
TOKEN = "let me in"
KINDS = (("moa-n1", ()), ("moa-n1", SAMPLED), ("eagle2", ()), ("eagle2", SAMPLED))
ROUNDS, KILLS = 6, 2


def killed(
    server: subprocess.Popen, port: int, clients: list[Client], rng: random.Random
) -> subprocess.Popen:
    """Kill it after so many tokens, and start it again after a while."""
    due = rng.uniform(1, 120)
    assert until(
        lambda: told(port) >= due or all(one.ended for one in clients),
        60,
    )
    sleep(rng.uniform(0, 0.15))
    server.kill()
    server.communicate(timeout=10)
    sleep(rng.uniform(0, 1.5))
    return started(port, TOKEN)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_clients_of_a_server_that_is_killed_again_and_again_write_the_local_text(
    models: Path, tmp_path: Path, seed: int
) -> None:
    """They go on alone, and heal; greedy and sampled."""
    rng, port = random.Random(seed), free_port()
    server = started(port, TOKEN)
    try:
        for last in (0, 1):  # fetched before: a kill amid that is an error, said in a sentence
            client_target(Address(f"ws://127.0.0.1:{port}", TOKEN), last, tmp_path / "cache")
        with ProxyProgram("127.0.0.1", port, link(FAR)) as proxy:
            clients = [
                Client(proxy.port, TOKEN, tmp_path, drafter, more) for drafter, more in KINDS
            ]
            assert until(lambda: told(port, "moa_sessions") == len(KINDS), 60)
            for _ in range(KILLS):
                server = killed(server, port, clients, rng)
            texts = [client.report(180) for client in clients]
    finally:
        server.kill()
        server.communicate(timeout=10)
    for client, text in zip(clients, texts, strict=True):
        sampling = Sampling(0.8, seed=3) if client.more else Sampling()
        assert text["output_ids"] == local(sampling=sampling), (client.drafter, client.more)
        assert text["reason"] == "length"
    for kind in (LinkDown, OfflineToken, LinkBack):  # the last of them may have ended before
        assert any(client.events(kind) for client in clients), kind
