"""A server process that is killed at random moments, or flooded, while clients decode.

Minutes: pytest -m slow tests/moa_core/link/test_kills.py
"""

import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep

import psutil
import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import LinkBack, LinkDown, OfflineToken, Trace
from moa_core.decoding.verify import Sampling
from moa_core.link.connection import Address
from moa_core.link.emulator import Link, link
from moa_core.link.process import ServerProcess
from moa_core.link.remote import Remote
from moa_core.loading.load import load_drafter, load_target
from moa_core.text import prompt_ids
from tests.attackers import Attacker, fire
from tests.moa_core.link.test_processes import COUNT, SAMPLED, WORDS, free_port, local, started
from tests.serving import until

pytestmark = pytest.mark.slow
FAR = link("rtt=250,jitter=20,down=20,up=20")
TOKEN = "let me in"
KINDS = (("moa-n1", Sampling()), ("moa-n1", SAMPLED), ("eagle2", Sampling()), ("eagle2", SAMPLED))
ROUNDS, KILLS = 6, 2


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
        with (
            Link(FAR) as way,
            Remote(self._address, self._target, self._drafter, link=way) as remote,
        ):
            events = decode(self._target, self._drafter, ids, settings, remote=remote)
            for _ in self.trace.record(events):
                pass


def killed(
    server: subprocess.Popen, port: int, clients: list[Client], rng: random.Random
) -> subprocess.Popen:
    """Kill it after so many tokens, and start it again after a while."""

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


# ---- a server process under attack ----

MIB = 1 << 20
SOON = 2.0  # seconds after which a lost client's session is gone
FLAT = 24 * MIB  # by so much may a process's memory differ, whatever it has been through


def resident(process: ServerProcess) -> int:
    """Bytes of memory."""
    return psutil.Process(process.pid).memory_info().rss


def counted(process: ServerProcess) -> tuple[int, int]:
    """Its sessions, and connections without one: who asks for this is among them."""
    answer = fire(process.port, b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n").decode()
    sessions, waiting = re.search(r"(\d+) sessions, (\d+) waiting", answer).groups()
    return int(sessions), int(waiting)


class Good:
    """A client that means well, over and over; its texts are compared with the local one."""

    def __init__(self, process: ServerProcess) -> None:
        self._process, self._target = process, load_target()
        self._drafter = load_drafter("moa-n1", self._target)
        self.texts = 0
        self._right = self._text(None)

    def _text(self, remote: Remote | None) -> list[int]:
        settings = Settings(40, sampling=Sampling(0.7, seed=5), away=Away(patience=20))
        prompt = [5, 9, 33, 2, 17, 40, 8]
        events = decode(self._target, self._drafter, prompt, settings, remote=remote)
        return Trace(events=list(events)).output_ids

    def work(self) -> None:
        with Remote(self._process.address(), self._target, self._drafter) as remote:
            assert self._text(remote) == self._right
        self.texts += 1


def flooded(process: ServerProcess, good: Good, frames: int, seed: int = 0) -> int:
    """Attackers send so many bad frames, or some more, while a good client is served."""
    over, counts = Event(), [0] * 8

    def attack(number: int) -> None:
        attacker = Attacker(seed + number, process.token)
        while sum(counts) < frames:
            before = attacker.sent
            attacker.attack(process.port)
            # Endless fragments count as one frame: it is one message that has no end.
            counts[number] += min(attacker.sent - before, 3)

    def work() -> None:
        while not over.is_set():
            good.work()

    with ThreadPoolExecutor(len(counts) + 1) as pool:
        working = pool.submit(work)
        try:
            list(pool.map(attack, range(len(counts))))
        finally:
            over.set()
        working.result()
    return sum(counts)


def test_bad_frames_do_no_harm(process: ServerProcess) -> None:
    """A good client is served all the while; then nothing is left, and memory is as before."""
    good, frames = Good(process), 10_000
    flooded(process, good, 1000, seed=1000)
    assert until(lambda: counted(process)[0] == 0, SOON + 5)
    before, texts = resident(process), good.texts
    assert flooded(process, good, frames) >= frames and good.texts > texts
    assert until(lambda: counted(process) == (0, 1), SOON + 5), "only who asks for this"
    good.work()
    after = resident(process)
    print(f"{frames} frames: {before / MIB:.1f} MiB before, {after / MIB:.1f} MiB after")
    assert after - before < FLAT
    assert process.last_words == "", "nothing of it is in the log"
