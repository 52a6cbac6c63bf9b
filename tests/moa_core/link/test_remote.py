"""Decoding across a real socket: the same text, wherever the link is cut and whoever answers."""

import random
import threading
from contextlib import ExitStack
from itertools import product
from time import sleep
from typing import Any

import pytest
import torch
from websockets.sync.server import ServerConnection

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import (
    Drafted,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import AUTO, DraftTree
from moa_core.decoding.verifier import LinkLost
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link import server as servers
from moa_core.link import wire
from moa_core.link.client_weights import client_target, drafter_mark, fetch, keep, open_target
from moa_core.link.connection import Address, Wire, reach
from moa_core.link.remote import Remote
from moa_core.link.wire import First, pack
from tests.moa_core.link.scene import (
    FRESH,
    GREEDY,
    PROMPT,
    TARGET,
    TOKEN,
    TREE,
    WELCOME,
    address,
    drafter_for,
    run,
)
from tests.models import tiny_target, useful
from tests.serving import Caller, CutLink, scripted, serving, until

METHODS = ("moa-n0", "moa-n1", "moa-n3", "eagle2", *FRESH, "vanilla", "streamed")
CUT = ("moa-n1", "eagle2", "independent", "vanilla", "streamed")
SAMPLED = Sampling(0.8, seed=3)


@pytest.mark.parametrize("method", METHODS)
def test_over_a_socket_text_and_exact_drafts_are_the_same(method, served):
    local = run("vanilla" if method == "streamed" else method)
    exact, small = run(method, served[1], kind="f32"), run(method, served[1], kind="bf16")
    for trace in (exact, small):
        assert trace.output_ids == local.output_ids == GREEDY[:40]
        assert all(event.received > 0 for event in trace.of(Verified))
        assert trace.seconds["network"] > 0
    assert exact.accepted_lengths == local.accepted_lengths
    if method not in ("independent", "vanilla", "streamed"):
        received = [sum(event.received for event in one.of(Verified)) for one in (small, exact)]
        assert received[0] < received[1]
    sized = run(method, served[1], SAMPLED, tree=AUTO)
    assert sized.output_ids == run("vanilla", sampling=SAMPLED).output_ids


def cuts(seed: int) -> list[tuple[str, int, float]]:
    """For a moment, or longer than silence lasts; all but the first may be in a handshake."""
    draw = random.Random(seed)
    return [
        (draw.choice(["up", "down"]), draw.randint(1 if number else 5, 25), draw.uniform(0.02, 1.2))
        for number in range(draw.randint(1, 4))
    ]


SCHEDULES = [  # a few, or hundreds
    *((method, SAMPLED if method == "moa-n1" else Sampling(), range(2)) for method in CUT),
    *(
        pytest.param(method, sampling, range(100, 142), marks=pytest.mark.slow)
        for method, sampling in product(CUT, (Sampling(), SAMPLED))
    ),
]


@pytest.mark.parametrize(("method", "sampling", "seeds"), SCHEDULES)
def test_wherever_the_link_is_cut_no_token_is_lost_or_doubled(method, sampling, seeds, served):
    local = run(method, sampling=sampling, count=50)
    lost = alone = 0
    for seed in seeds:
        trace = run(method, served[1], sampling, 50, link=CutLink(cuts(seed)))
        assert trace.output_ids == local.output_ids == trace.verified_ids, f"seed {seed}"
        cycles, spent = trace.of(Verified), trace.seconds  # every part is charged once
        assert all(min(event.seconds, event.network_seconds) >= 0 for event in cycles)
        assert all(value >= 0 for value in spent.values())
        assert sum(event.seconds for event in cycles) == pytest.approx(spent["verify"], abs=1e-6)
        assert sum(event.network_seconds for event in cycles) <= spent["network"] + 1e-6
        assert trace.of(Prefilled)[0].seconds <= spent["prefill"] + spent["network"] + 1e-6
        assert sum(event.seconds for event in trace.of(LinkBack)) <= sum(spent.values())
        lost += len(trace.of(LinkDown))
        alone += len(trace.of(OfflineToken))
    # A stream measures the round trip at its handshake alone: a busy machine makes it patient.
    assert lost or method == "streamed"
    assert bool(alone) == (method in ("moa-n1", "eagle2", "independent"))


@pytest.mark.parametrize("lost_again", [False, True])
def test_a_server_that_starts_anew_reads_the_text_again(lost_again):
    lost: list[type] = []
    with ExitStack() as first, ExitStack() as second:
        _, port = first.enter_context(serving(TARGET, drafter_for, TOKEN))

        def anew(remote: Remote) -> None:
            first.close()
            second.enter_context(serving(TARGET, drafter_for, TOKEN, port=port))
            wait = remote._await

            def wait_and_lose(kind: type) -> Any:
                message = wait(kind)
                if lost_again and not lost:
                    lost.append(kind)
                    remote._lose()
                return message

            remote._await = wait_and_lose  # type: ignore[method-assign]

        trace = run("moa-n1", port, count=60, meanwhile=anew)
    assert trace.output_ids == GREEDY and lost == [First] * lost_again
    assert trace.of(LinkBack)


@pytest.mark.parametrize("method", ["moa-n0", "streamed"])
def test_a_second_run_begins_anew_whatever_became_of_the_first(method, served, monkeypatch):
    drafter, away = drafter_for(method), False

    def found(*words: Any) -> Wire:
        if away:
            raise UserError("It is away.") from ConnectionError()
        return reach(*words)

    monkeypatch.setattr("moa_core.link.remote.reach", found)
    traces = []
    with Remote(address(served[1]), TARGET, drafter, method == "streamed") as remote:
        for _ in range(2):
            settings, trace = Settings(40, TREE, patience=20 if traces else 0), Trace()
            for event in trace.record(decode(TARGET, drafter, PROMPT, settings, remote=remote)):
                if isinstance(event, Verified) and event.cycle == 2 and not traces:
                    away = True
                    remote._wire.drop()
            traces.append(trace)
            away = False
    assert [trace.reason for trace in traces] == ["offline", "length"]
    assert method == "streamed" or (traces[0].offline_ids and len(traces[0].output_ids) == 40)
    assert traces[1].output_ids == GREEDY[:40]


def test_a_stream_that_went_on_is_left_for_the_next_run(served):
    settings = Settings(10, TREE)
    with Remote(address(served[1]), TARGET, Vanilla(), streams=True) as remote:
        for _ in range(2):
            trace = Trace()
            trace.events = list(decode(TARGET, Vanilla(), PROMPT, settings, remote=remote))
            assert trace.output_ids == GREEDY[:10]


def test_a_client_with_its_part_of_the_target_needs_no_other_weights(served, tmp_path):
    keep(fetch(address(served[1]), 1), tmp_path / "client")
    target = open_target(tmp_path / "client")
    held = [name for name, weight in target.model.named_parameters() if not weight.is_meta]
    assert not any(".layers.0." in name or ".layers.1." in name for name in held)
    assert any(".layers.2." in name for name in held)
    assert run("moa-n1", served[1], target=target).output_ids == GREEDY[:40]


@pytest.mark.parametrize(
    ("to", "target", "drafter", "words"),
    [
        ({}, tiny_target(layers=2), Vanilla(), "differs from this client's"),
        ({}, TARGET, useful("moa-n0", TARGET, whisper=0.5), "other weights"),
        ({"url": "elsewhere"}, TARGET, Vanilla(), "not an address"),
        ({"url": "ws://127.0.0.1:99999"}, TARGET, Vanilla(), "not an address"),
        ({"url": "ws://a..b:80"}, TARGET, Vanilla(), "not an address"),
        ({"url": "ws://127.0.0.1:9"}, TARGET, Vanilla(), "no server"),
        ({"kind": "int4"}, TARGET, Vanilla(), "Invalid enum value"),
    ],
)
def test_who_cannot_be_served_is_told_why(to, target, drafter, words, served):
    with pytest.raises(UserError, match=words):
        there = Address(**{"url": f"ws://127.0.0.1:{served[1]}", "token": TOKEN, **to})
        Remote(there, target, drafter)


@pytest.mark.parametrize("cuts", [[], [("down", 10, 0.9)], [("up", 6, 0.9)]])
def test_every_byte_of_every_connection_is_some_event_s(cuts, served, monkeypatch):
    wires: list[Wire] = []
    monkeypatch.setattr(
        "moa_core.link.remote.reach", lambda *words: wires.append(reach(*words)) or wires[-1]
    )
    trace = run("moa-n1", served[1], link=CutLink(cuts), prompt=PROMPT[:6])
    assert len(trace.of(LinkDown)) >= len(cuts) and len(wires) > len(cuts)
    share = sum(event.received for event in trace.of(Drafted))
    passed = [*trace.of(Prefilled), *trace.of(Verified)]
    assert sum(event.sent for event in passed) == sum(wire.sent for wire in wires)
    received = share + sum(event.received for event in passed)
    assert received == sum(wire.received for wire in wires) or cuts  # a sign of life, unheard
    assert received >= sum(wire.received for wire in wires[:-1])
    assert trace.of(Drafted)[0].received == share > 0
    assert trace.of(Prefilled)[0].received < 400, "the first token does not wait for the shares"


HELLO = wire.Hello(wire.VERSION)
LONG = wire.Answer(1, [5], [0.5], [1.0], pack({"x": torch.randn(2500)}, "f32"), 0.1)


def test_a_long_answer_over_a_slow_link_is_no_silence(monkeypatch):
    """But silence in the middle of it is; and a busy server's welcome is waited for."""
    monkeypatch.setattr(wire, "PART", 2000)
    told = threading.Event()

    def slowly(connection: ServerConnection) -> None:
        for _ in range(3):
            connection.send(wire.encode(wire.Alive()))
            sleep(0.2)
        connection.send(WELCOME)
        for frame in wire.frames(LONG):  # 10 kB in 0.7 s
            connection.send(frame)
            sleep(0.12)
        connection.send(wire.encode(wire.Part(b"abc", True)))
        told.wait(20)

    with scripted(slowly) as address:
        one = Wire(address, HELLO, timeout=0.5)
        assert one.receive(0.5) == LONG
        assert 10_000 < one.received < 12_000
        with pytest.raises(TimeoutError):
            one.receive(0.3)
        told.set()
        one.drop()


NO_WELCOME = "did not answer with a welcome"


@pytest.mark.parametrize(
    ("says", "told"),
    [(b"\xc1", "unknown message"), ("hello", "unknown message"), (wire.encode(LONG), NO_WELCOME)],
)
def test_what_is_no_server_of_ours_is_left_with_a_sentence(says, told):
    ended = threading.Event()

    def script(connection: ServerConnection) -> None:
        connection.send(says)
        for _ in connection:
            pass
        ended.set()

    with scripted(script) as address:
        with pytest.raises(UserError, match=told):
            Remote(address, TARGET, Vanilla())
        assert ended.wait(5), "the connection is not left open"


def test_a_server_that_turns_into_another_ends_the_search_for_it():
    """Else a run would wait for ever for a link that will not come back."""
    said = [WELCOME, b"\xc1"]
    with (
        scripted(lambda one: one.send(said.pop(0))) as address,
        Remote(address, TARGET, Vanilla()) as remote,
    ):
        with pytest.raises(LinkLost):
            remote.verify(DraftTree.only_root(1), 0)
        with pytest.raises(UserError, match="unknown message"):
            while not remote.back(5):
                pass


def test_signs_of_life_come_while_a_drafter_is_loaded_and_while_others_work(monkeypatch):
    monkeypatch.setattr(servers, "BEAT", 0.05)
    loading = threading.Event()

    def slowly(name: str) -> Drafter:
        assert loading.wait(20)
        return useful(name, TARGET)

    with serving(TARGET, slowly) as (one, port):
        address = Address(f"ws://127.0.0.1:{port}")
        other = Caller(port)  # needs no drafter: its welcome need not wait for the worker
        hello = wire.Hello(wire.VERSION, "", "moa-n0", drafter_mark(useful("moa-n0", TARGET)))
        found: list[Wire] = []
        coming = threading.Thread(target=lambda: found.append(Wire(address, hello, timeout=0.5)))
        coming.start()
        other.say(wire.Prefill(1, [1, 2, 3], 20))
        late = Caller(port)
        assert late.welcome.session and not found
        sleep(0.8)
        loading.set()
        coming.join(20)
        assert found and other.hear().number == 1
        found[0].close()
        late.close()
        other.close()
        assert until(lambda: not one.sessions)


def test_a_target_that_does_not_come_is_said_in_a_sentence(tmp_path):
    with (
        scripted(lambda connection: connection.send(WELCOME)) as address,
        pytest.raises(UserError, match="is gone"),
    ):
        client_target(address, 0, tmp_path / "cache")
