"""Decoding across a real socket: the same text as without one, wherever the link is cut."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import (
    Drafted,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link.client_weights import fetch, keep, open_target
from moa_core.link.connection import Address, Wire, reach
from moa_core.link.emulator import Link
from moa_core.link.remote import Remote
from moa_core.link.server import Server
from moa_core.link.wire import First
from moa_core.model.target import Target
from moa_core.train.init import fresh
from tests.models import tiny_target, useful
from tests.serving import CutLink, serving

PROMPT = [5, 9, 33, 2, 17, 40]
METHODS = ("moa-n0", "moa-n1", "moa-n3", "eagle2", "glide", "independent", "medusa")
CUT = ("moa-n1", "eagle2", "independent", "vanilla", "streamed")
TREE = TreeSettings(3, 3, 8)
SAMPLINGS = (Sampling(), Sampling(0.8, seed=3))
TARGET = tiny_target()
SILENCE = 0.15  # so that a test need not wait for seconds


def drafter_for(method: str) -> Drafter:
    if method in ("vanilla", "none", "streamed"):
        return Vanilla()
    if method in ("glide", "independent", "medusa"):
        return fresh(method, TARGET, 0)
    return useful(method, TARGET)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Server, int]]:
    with serving(TARGET, drafter_for, token="let me in") as both:
        yield both


def run(
    method: str, port: int | None = None, count: int = 40, sampling: Sampling | None = None,
    kind: str = "bf16", away: Away | None = None, tree: TreeSettings = TREE,
    link: Link | None = None,
) -> Trace:  # fmt: skip
    drafter, trace = drafter_for(method), Trace()
    away = away or Away(patience=20)
    settings = Settings(count, tree, sampling or Sampling(), away=away)
    if port is None:
        trace.events = list(decode(TARGET, drafter, PROMPT, settings))
        return trace
    address = Address(f"ws://127.0.0.1:{port}", "let me in", kind)
    with Remote(address, TARGET, drafter, method == "streamed", SILENCE, link) as remote:
        trace.events = list(decode(TARGET, drafter, PROMPT, settings, remote=remote))
    return trace


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("method", [*METHODS, "vanilla", "streamed"])
def test_over_a_socket_the_text_is_the_same(
    method: str, sampling: Sampling, served: tuple[Server, int]
) -> None:
    trace, local = run(method, served[1], sampling=sampling), run(method, sampling=sampling)
    assert trace.output_ids == local.output_ids
    assert all(event.received > 0 for event in trace.of(Verified))
    assert trace.seconds["network"] > 0


@pytest.mark.parametrize("method", ["moa-n1", "eagle2", "medusa"])
def test_trees_may_size_themselves_over_a_socket(method: str, served: tuple[Server, int]) -> None:
    for sampling in SAMPLINGS:
        trace = run(method, served[1], 60, sampling, tree=AUTO)
        assert trace.output_ids == run(method, count=60, sampling=sampling).output_ids


@pytest.mark.parametrize("method", METHODS)
def test_with_exact_numbers_every_draft_is_the_same(
    method: str, served: tuple[Server, int]
) -> None:
    trace, local = run(method, served[1], kind="f32"), run(method)
    assert trace.accepted_lengths == local.accepted_lengths
    small = run(method, served[1], kind="int8")
    assert small.output_ids == local.output_ids
    if method not in ("independent",):
        received = [sum(event.received for event in one.of(Verified)) for one in (small, trace)]
        assert received[0] < received[1]


def cuts(seed: int) -> list[tuple[str, int, float]]:
    """Some cuts, each after a few messages or many, for a moment or longer than silence lasts.

    The first one falls after the first handshake; later ones fall within handshakes as well.
    """
    draw = random.Random(seed)
    return [
        (
            draw.choice(["up", "down"]),
            draw.randint(1 if number else 5, 25),
            draw.uniform(0.02, 0.5),
        )
        for number in range(draw.randint(1, 4))
    ]


def check_cuts(method: str, sampling: Sampling, port: int, seeds: range) -> tuple[int, int]:
    """Every schedule of cuts gives the local text. Returns losses noticed, offline tokens."""
    local = run(method, sampling=sampling)
    lost = alone = 0
    for seed in seeds:
        with CutLink(cuts(seed)) as link:
            trace = run(method, port, sampling=sampling, link=link)
        assert trace.output_ids == local.output_ids, f"seed {seed}"
        assert trace.output_ids == trace.verified_ids
        check_times(trace)
        lost += len(trace.of(LinkDown))
        alone += len(trace.of(OfflineToken))
    return lost, alone


def check_times(trace: Trace) -> None:
    """Every part is charged once: to its event, and to its phase."""
    cycles = trace.of(Verified)
    assert all(min(event.seconds, event.network_seconds) >= 0 for event in cycles)
    spent = trace.seconds
    assert all(value >= 0 for value in spent.values())
    assert sum(event.seconds for event in cycles) == pytest.approx(spent["verify"], abs=1e-6)
    on_the_way = sum(event.network_seconds for event in cycles)
    away = sum(event.seconds for event in trace.of(LinkBack))
    assert on_the_way <= spent["network"] + 1e-6
    assert trace.of(Prefilled)[0].seconds <= spent["prefill"] + spent["network"] + 1e-6
    assert away <= sum(spent.values())


@pytest.mark.parametrize(
    ("method", "sampling"), [*((method, SAMPLINGS[0]) for method in CUT), ("moa-n1", SAMPLINGS[1])]
)
def test_wherever_the_link_is_cut_no_token_is_lost_or_doubled(
    method: str, sampling: Sampling, served: tuple[Server, int]
) -> None:
    lost, alone = check_cuts(method, sampling, served[1], range(2))
    assert lost and bool(alone) == (method in ("moa-n1", "eagle2", "independent"))


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("method", CUT)
def test_two_hundred_and_more_schedules_of_cuts(
    method: str, sampling: Sampling, served: tuple[Server, int]
) -> None:
    check_cuts(method, sampling, served[1], range(100, 142))


@pytest.mark.parametrize("lost_again", [False, True])
def test_a_server_that_starts_anew_reads_the_text_again(lost_again: bool) -> None:
    """Also when the link is lost once more before its first answer has come."""
    local = run("moa-n1", count=120)
    with serving(TARGET, drafter_for, token="let me in") as (_, port):
        drafter, trace = drafter_for("moa-n1"), Trace()
        settings = Settings(120, TREE, away=Away(patience=20))
        address = Address(f"ws://127.0.0.1:{port}", "let me in")
        remote = Remote(address, TARGET, drafter, silence=SILENCE)
        events = decode(TARGET, drafter, PROMPT, settings, remote=remote)
        for event in trace.record(events):
            if isinstance(event, Verified) and event.cycle == 3:
                break
    wait, lost = remote._await, []

    def wait_and_lose(number: int, kind: type) -> Any:
        message = wait(number, kind)
        if lost_again and not lost:
            lost.append(kind)
            remote._lose()
        return message

    remote._await = wait_and_lose  # type: ignore[method-assign]
    with serving(TARGET, drafter_for, token="let me in", port=port), remote:
        for _ in trace.record(events):
            pass
    assert trace.output_ids == local.output_ids and lost == [First] * lost_again
    assert len(trace.of(LinkBack)) == 1


def test_text_that_stays_is_gone_on_from_over_a_socket(served: tuple[Server, int]) -> None:
    with CutLink([("down", 8, 0.4)]) as link:
        away = Away(keep=True, patience=20)
        trace = run("eagle2", served[1], away=away, count=60, link=link)
    kept = [event for event in trace.of(Verified) if event.kept]
    alone = [event.token for event in trace.of(OfflineToken)]
    assert len(kept) == 1 and list(kept[0].emitted[: len(alone)]) == alone
    assert len(trace.output_ids) == 60 == len(trace.verified_ids)


def test_a_link_that_stays_cut_ends_the_run_with_the_drafter_s_text(
    served: tuple[Server, int],
) -> None:
    with CutLink([("down", 8, 30.0)]) as link:
        trace = run("moa-n0", served[1], away=Away(patience=0.1), link=link)
    assert trace.reason == "offline" and trace.offline_ids and len(trace.output_ids) == 40


def test_a_client_with_its_part_of_the_target_needs_no_other_weights(
    served: tuple[Server, int], tmp_path
) -> None:
    address = Address(f"ws://127.0.0.1:{served[1]}", "let me in")
    keep(fetch(address, 1), tmp_path)
    target = open_target(tmp_path)
    held = [name for name, weight in target.model.named_parameters() if not weight.is_meta]
    assert not any(".layers.0." in name or ".layers.1." in name for name in held)
    assert any(".layers.2." in name for name in held)
    drafter = drafter_for("moa-n1")
    with Remote(address, target, drafter) as remote:
        events = list(decode(target, drafter, PROMPT, Settings(40, TREE), remote=remote))
    assert Trace(events=events).output_ids == run("moa-n1").output_ids


def refused(port: int, target: Target = TARGET, **changes: str) -> str:
    address = Address(f"ws://127.0.0.1:{port}", **{"token": "let me in", **changes})
    with pytest.raises(UserError) as caught:
        Remote(address, target, useful("moa-n0", target))
    return str(caught.value)


def test_who_cannot_be_served_is_told_why(served: tuple[Server, int]) -> None:
    port = served[1]
    assert "token is wrong" in refused(port, token="guess")
    assert "another than this client's" in refused(port, tiny_target(layers=2))
    other = useful("moa-n0", TARGET, whisper=0.5)
    with pytest.raises(UserError, match="other weights"):
        Remote(Address(f"ws://127.0.0.1:{port}", "let me in"), TARGET, other)
    with pytest.raises(UserError, match="no address"):
        Remote(Address("elsewhere"), TARGET, Vanilla())
    with pytest.raises(UserError, match="no server"):
        Remote(Address("ws://127.0.0.1:9"), TARGET, Vanilla())
    with pytest.raises(UserError, match="f32, bf16, int8"):
        Remote(Address(f"ws://127.0.0.1:{port}", "let me in", "int4"), TARGET, Vanilla())


@pytest.mark.parametrize("cuts", [[], [("down", 10, 0.4)], [("up", 6, 0.4)]])
def test_every_byte_of_every_connection_is_some_event_s(
    cuts: list[Any], served: tuple[Server, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    wires: list[Wire] = []

    def kept(*words: Any) -> Wire:
        wires.append(reach(*words))
        return wires[-1]

    monkeypatch.setattr("moa_core.link.remote.reach", kept)
    with CutLink(cuts) as link:
        trace = run("moa-n1", served[1], link=link)
    assert len(trace.of(LinkDown)) >= len(cuts) and len(wires) > len(cuts)
    share = sum(event.received for event in trace.of(Drafted))
    passed = [*trace.of(Prefilled), *trace.of(Verified)]
    assert sum(event.sent for event in passed) == sum(wire.sent for wire in wires)
    received = share + sum(event.received for event in passed)
    assert received == sum(wire.received for wire in wires) or cuts  # a sign of life, unheard
    assert received >= sum(wire.received for wire in wires[:-1])
    assert trace.of(Drafted)[0].received == share > 0
    assert trace.of(Prefilled)[0].received < 400, "the first token does not wait for the shares"
