"""A server to be tried out: its target, its clients, runs over it, and a target that can wait."""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link.client_weights import target_mark
from moa_core.link.connection import Address
from moa_core.link.emulator import Link
from moa_core.link.remote import Remote
from moa_core.link.server import Server
from moa_core.link.session import Session
from moa_core.link.wire import First, Prefill, Share, Stream, Verify, Welcome, encode
from moa_core.model.target import Target
from moa_core.train.drafters import fresh
from tests.models import plain_greedy, tiny_target, useful
from tests.serving import Caller

TOKEN = "let me in"
TARGET = tiny_target()
PROMPT = [5, 9, 33, 2, 17, 40, 8]
GREEDY = plain_greedy(TARGET, PROMPT, 60)
NEXT = Verify(2, 7, [GREEDY[0]], [-1])  # the first request of who has begun
WELCOME = encode(Welcome("name", TARGET.name, target_mark(TARGET)))
USEFUL = ("moa-n0", "moa-n1", "moa-n2", "moa-n3", "eagle2")
FRESH = ("eagle3", "tandem", "independent", "medusa")
TREE = TreeSettings(3, 3, 8)
SILENCE = 0.5  # more than a beat; and a test need not wait for seconds
Served = tuple[Server, int]


@cache
def drafter_for(method: str) -> Drafter:
    if method in ("vanilla", "streamed"):
        return Vanilla()
    if method not in USEFUL + FRESH:
        raise UserError("it serves others")
    return fresh(method, TARGET, 0) if method in FRESH else useful(method, TARGET)


def address(port: int, kind: str = "bf16") -> Address:
    return Address(f"ws://127.0.0.1:{port}", TOKEN, kind)


def caller(port: int, **hello: Any) -> Caller:
    return Caller(port, TOKEN, **hello)


def begun(port: int) -> Caller:
    one = caller(port)
    assert isinstance(one.ask(Prefill(1, PROMPT, 100)), First)
    assert isinstance(one.hear(), Share)
    return one


def run(
    method: str, port: int | None = None, sampling: Sampling | None = None, count: int = 40,
    kind: str = "bf16", patience: float = 20, tree: TreeSettings = TREE,
    link: Link | None = None, prompt: list[int] = PROMPT,
    meanwhile: Callable[[Remote], object] = lambda remote: None, target: Target = TARGET,
) -> Trace:  # fmt: skip
    """A text over a socket or, without a port, beside its target. meanwhile: called once, after a
    few tokens."""
    drafter, trace = drafter_for(method), Trace()
    settings = Settings(count, tree, sampling or Sampling(), patience=patience)
    if port is None:
        trace.events = list(decode(target, drafter, prompt, settings))
        return trace
    streams = method == "streamed"
    with Remote(address(port, kind), target, drafter, streams, SILENCE, link) as remote:
        for event in trace.record(decode(target, drafter, prompt, settings, remote=remote)):
            if isinstance(event, Verified) and event.cycle == 2:
                meanwhile(remote)
    return trace


def answers(session: Session, request: Prefill | Verify | Stream) -> Any:
    if isinstance(request, Verify):
        return [session.verify(request)]
    return (session.prefill if isinstance(request, Prefill) else session.push)(request)


def check_good_client(port: int) -> None:
    assert run("moa-n1", port, count=20).output_ids == GREEDY[:20]


class Gated(Target):
    """A target whose forwards wait, once it is told so."""

    gate = threading.Event()
    forwards = 0

    def _forward(self, *args: Any) -> Any:
        type(self).forwards += 1
        assert self.gate.wait(20)
        return super()._forward(*args)
