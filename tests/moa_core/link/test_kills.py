"""A server process that is killed at random moments while clients decode.

Minutes: pytest -m slow tests/moa_core/link/test_kills.py
"""

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import LinkBack, LinkDown, OfflineToken, Trace
from moa_core.decoding.verify import Sampling
from moa_core.link.connection import Address
from moa_core.link.emulator import Link, link
from moa_core.link.process import ROOT
from moa_core.link.remote import Remote
from moa_core.loading.load import load_drafter, load_target
from moa_core.text import prompt_ids
from tests.serving import free_port, until

pytestmark = pytest.mark.slow
FAR = link("rtt=250,jitter=20,down=20,up=20")
TOKEN = "let me in"
WORDS, COUNT, SAMPLED = "The fox", 90, Sampling(0.8, seed=3)
KINDS = (("moa-n1", Sampling()), ("moa-n1", SAMPLED), ("eagle2", Sampling()), ("eagle2", SAMPLED))
ROUNDS, KILLS = 6, 2


def local(sampling: Sampling) -> list[int]:
    """The text of a target beside its drafter."""
    target = load_target()
    settings, ids = Settings(COUNT, sampling=sampling), prompt_ids(target.tokenizer, WORDS)
    return Trace(
        events=list(decode(target, load_drafter("none", target), ids, settings))
    ).output_ids


def started(port: int, token: str) -> subprocess.Popen:
    """`serve` as a person starts it."""
    one = subprocess.Popen(
        [sys.executable, "-m", "moa_core", "serve", "--port", str(port)],
        env=os.environ | {"MOA_TOKEN": token}, cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert one.stdout is not None
    assert f"ws://127.0.0.1:{port}" in one.stdout.readline()
    return one


class Client:
    """Decodes over a far link; `trace` grows meanwhile."""

    def __init__(self, port: int, method: str, sampling: Sampling) -> None:
        self.trace = Trace()
        self._address, self._sampling = Address(f"ws://127.0.0.1:{port}", TOKEN), sampling
        self._target = load_target()
        self._drafter = load_drafter(method, self._target)

    def run(self) -> None:
        ids = prompt_ids(self._target.tokenizer, WORDS)
        settings = Settings(COUNT, sampling=self._sampling, away=Away(patience=60))
        way = Link(FAR)
        with Remote(self._address, self._target, self._drafter, link=way) as remote:
            events = decode(self._target, self._drafter, ids, settings, remote=remote)
            for _ in self.trace.record(events):
                pass


def killed(
    server: subprocess.Popen, port: int, clients: list[Client], rng: random.Random
) -> subprocess.Popen:
    """Kill it after a number of tokens, and start it again after a while."""

    def written() -> int:
        return sum(len(client.trace.verified_ids) for client in clients)

    due = written() + rng.uniform(1, 60)
    until(lambda: written() >= due or all(one.trace.reason for one in clients), 60)
    sleep(rng.uniform(0, 0.15))
    server.kill()
    server.communicate(timeout=10)
    sleep(rng.uniform(0, 1.5))
    return started(port, TOKEN)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_clients_of_a_server_that_is_killed_again_and_again_write_the_local_text(
    models: Path, seed: int
) -> None:
    """They go on alone, and heal; greedy and sampled."""
    rng, port = random.Random(seed), free_port()
    clients = [Client(port, *kind) for kind in KINDS]
    server = started(port, TOKEN)
    try:
        with ThreadPoolExecutor(len(clients)) as pool:
            runs = [pool.submit(client.run) for client in clients]
            for _ in range(KILLS):
                server = killed(server, port, clients, rng)
            for run in runs:
                run.result(180)
    finally:
        server.kill()
        server.communicate(timeout=10)
    for client, (method, sampling) in zip(clients, KINDS, strict=True):
        assert client.trace.output_ids == local(sampling), (method, sampling)
        assert client.trace.reason == "length"
    for kind in (LinkDown, OfflineToken, LinkBack):  # the last of them may have ended before
        assert any(client.trace.of(kind) for client in clients), kind
