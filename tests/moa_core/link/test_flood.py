"""A server process under attack: thousands of bad frames, many clients, and its memory."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psutil
import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import Trace
from moa_core.decoding.verify import Sampling
from moa_core.link.process import ServerProcess
from moa_core.link.remote import Remote
from moa_core.loading.load import load_drafter, load_target
from tests.attackers import Attacker, fire
from tests.serving import until

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


@pytest.mark.slow
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
