"""A server process that is killed at random moments while clients decode.

Minutes: pytest -m slow tests/moa_core/link/test_kills.py
"""

import random
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import LinkBack, LinkDown, OfflineToken, Trace
from moa_core.decoding.verify import Sampling
from moa_core.link.connection import Address
from moa_core.link.emulator import Link, link
from moa_core.link.process import ServerProcess
from moa_core.link.remote import Remote
from moa_core.loading.load import load_drafter, load_target
from moa_core.text import prompt_ids
from tests.models import traced
from tests.serving import free_port, until

pytestmark = pytest.mark.slow
FAR = link("rtt=250,jitter=20,down=20,up=20")
TOKEN = "let me in"
COUNT, SAMPLED = 90, Sampling(0.8, seed=3)
KINDS = (("moa-n1", Sampling()), ("moa-n1", SAMPLED), ("eagle2", Sampling()), ("eagle2", SAMPLED))
ROUNDS, KILLS = 6, 2


def started(port: int) -> ServerProcess:
    return ServerProcess("--port", str(port), "--token", TOKEN)


def kill(server: ServerProcess) -> None:
    server._process.kill()
    server.stop()


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_clients_of_a_server_that_is_killed_again_and_again_write_the_local_text(models, seed):
    rng, port, target = random.Random(seed), free_port(), load_target()
    ids, traces = prompt_ids(target.tokenizer, "The fox"), [Trace() for _ in KINDS]

    def run(trace: Trace, method: str, sampling: Sampling) -> None:
        there, drafter = Address(f"ws://127.0.0.1:{port}", TOKEN), load_drafter(method, target)
        settings = Settings(COUNT, sampling=sampling, patience=60)
        with Remote(there, target, drafter, link=Link(FAR)) as remote:
            for _ in trace.record(decode(target, drafter, ids, settings, remote=remote)):
                pass

    def written() -> int:
        return sum(len(trace.verified_ids) for trace in traces)

    server = started(port)
    try:
        with ThreadPoolExecutor(len(KINDS)) as pool:
            runs = [pool.submit(run, one, *kind) for one, kind in zip(traces, KINDS, strict=True)]
            for _ in range(KILLS):  # after a number of tokens; it comes back after a while
                due = written() + rng.uniform(1, 60)
                until(lambda due=due: written() >= due or all(one.reason for one in traces), 60)
                sleep(rng.uniform(0, 0.15))
                kill(server)
                sleep(rng.uniform(0, 1.5))
                server = started(port)
            for one in runs:
                one.result(180)
    finally:
        kill(server)
    for trace, (method, sampling) in zip(traces, KINDS, strict=True):
        local = traced(target, "vanilla", ids, max_new_tokens=COUNT, sampling=sampling)
        assert trace.output_ids == local.output_ids, (method, sampling)
        assert trace.reason == "length"
    for kind in (LinkDown, OfflineToken, LinkBack):  # the last of them may have ended before
        assert any(trace.of(kind) for trace in traces), kind
