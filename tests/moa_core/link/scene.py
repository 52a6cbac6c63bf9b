"""A server to be tried out: its target, its clients, and a target that waits at a gate."""

import threading
from functools import cache
from typing import Any

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link.connection import Address
from moa_core.link.remote import Remote
from moa_core.link.server import Server
from moa_core.link.wire import (
    First,
    Prefill,
    Share,
)
from moa_core.model.target import Target
from moa_core.train.init import fresh
from tests.models import plain_greedy, tiny_target, useful
from tests.serving import Caller

TOKEN = "let me in"
TARGET = tiny_target()
PROMPT = [5, 9, 33, 2, 17, 40, 8]
GREEDY = plain_greedy(TARGET, PROMPT, 30)
METHODS = ("moa-n0", "moa-n1", "moa-n2", "eagle2", "independent", "vanilla", "streamed")
TREE = TreeSettings(3, 3, 8)
Served = tuple[Server, int]


@cache
def drafter_for(method: str) -> Drafter:
    if method in ("vanilla", "streamed"):
        return Vanilla()
    if method not in METHODS:
        raise UserError("it serves others")
    return fresh(method, TARGET, 0) if method == "independent" else useful(method, TARGET)


def caller(port: int, **hello: Any) -> Caller:
    return Caller(port, TOKEN, **hello)


def begun(port: int) -> Caller:
    """One that has had its prompt read."""
    one = caller(port)
    assert isinstance(one.ask(Prefill(1, PROMPT, 100)), First)
    for _ in range(-(-len(PROMPT) // 16)):
        assert isinstance(one.hear(), Share)
    return one


def run(method: str, port: int | None, prompt: list[int], sampling: Sampling) -> list[int]:
    """A text, over a socket or, without a port, beside its target."""
    drafter, trace = drafter_for(method), Trace()
    settings = Settings(24, TREE, sampling, away=Away(patience=20))
    if port is None:
        trace.events = list(decode(TARGET, drafter, prompt, settings))
    else:
        address = Address(f"ws://127.0.0.1:{port}", TOKEN)
        with Remote(address, TARGET, drafter, method == "streamed") as remote:
            trace.events = list(decode(TARGET, drafter, prompt, settings, remote=remote))
    return trace.output_ids


def check_good_client(port: int) -> None:
    """A client that means well gets the right text."""
    assert run("moa-n1", port, PROMPT, Sampling())[:20] == GREEDY[:20]


class Gated(Target):
    """A target whose forwards wait, once it is told so."""

    gate = threading.Event()
    forwards = 0

    def _forward(self, *args: Any) -> Any:
        type(self).forwards += 1
        assert self.gate.wait(20)
        return super()._forward(*args)
