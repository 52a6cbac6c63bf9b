"""Messages: they come back as they went, and what is none of ours is refused, never worse."""

import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from moa_core.link import wire
from moa_core.link.wire import pack, unpack
from tests.mutations import mutated
from tests.properties import SEEDS, trees

NUMBER, ID, PROB = st.integers(0, 2**53), st.integers(0, 2**31 - 1), st.floats(0, 1)
NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KINDS = st.sampled_from(["f32", "bf16"])
SAMPLED = st.builds(wire.Sampled, st.floats(0, 100), st.floats(0.01, 1), ID, st.integers(-9, 9))
VERIFY = st.builds(
    lambda tree, number, position: wire.Verify(number, position, [*tree.tokens], [*tree.parents]),
    trees(), NUMBER, NUMBER,
)  # fmt: skip
UP = st.one_of(
    st.builds(wire.Hello, st.integers(0, 9), NAME, NAME, NAME, KINDS, NAME),
    st.builds(wire.Prefill, NUMBER, st.lists(ID), st.integers(1, 2**21), SAMPLED, NUMBER),
    VERIFY,
    st.builds(wire.Stream, NUMBER, NUMBER, ID, st.integers(1, 2**20)),
    st.builds(wire.Fetch, st.integers(0, 1024)),
)


@st.composite
def halves(draw: st.DrawFn) -> Any:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    generator = torch.Generator().manual_seed(draw(SEEDS))
    return pack({draw(NAME): torch.randn(shape, generator=generator)}, draw(KINDS))


DOWN = st.one_of(
    st.builds(wire.Welcome, NAME, NAME, NAME),
    st.builds(wire.First, NUMBER, ID, PROB, PROB),
    st.builds(wire.Share, NUMBER, NUMBER, st.integers(1, 16), halves()),
    st.builds(
        wire.Answer, NUMBER, st.lists(ID), st.lists(PROB), st.lists(PROB), halves(), st.floats(0, 9)
    ),
    st.builds(wire.Pushed, NUMBER, NUMBER, ID, PROB, PROB),
    st.builds(wire.Piece, NAME, st.binary(), NUMBER),
    st.builds(wire.Refused, NAME, st.booleans()),
)


@given(UP, DOWN, st.data())
def test_messages_come_back_as_they_went_to_their_own_side_alone_and_never_cut(up, down, data):
    assert wire.read_up(wire.encode(up)) == up
    assert wire.read_down(wire.encode(down)) == down
    for frame in (wire.encode(up), wire.encode(down)):
        cut = frame[: data.draw(st.integers(0, len(frame) - 1))]
        for read in (wire.read_up, wire.read_down):
            with pytest.raises(wire.WireError):
                read(cut)
    for read, message in ((wire.read_down, up), (wire.read_up, down)):
        with pytest.raises(wire.WireError):
            read(wire.encode(message))


@given(UP | DOWN, SEEDS, st.data())
def test_a_changed_frame_is_a_message_or_the_protocol_s_error(message, seed, data):
    frame = bytearray(wire.encode(message))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    changed = [bytes(frame)]
    with suppress(OverflowError, UnicodeEncodeError):  # MessagePack itself has no such value
        changed.append(msgspec.msgpack.encode(mutated(msgspec.to_builtins(message), seed)))
    for one in changed:
        for read in (
            wire.read_up,
            wire.read_down,
            lambda sent: wire.Joiner().take(wire.encode(wire.Part(sent, False))),
        ):
            try:
                found = read(one)
            except wire.WireError as refused:
                assert len(str(refused)) < 1000
                continue
            if isinstance(found, wire.Share | wire.Answer):  # a half that is let in can be used
                unpack(found.half, torch.float32, torch.device("cpu"))


def changed(message: Any, **fields: Any) -> bytes:
    """A message with some fields changed, unchecked."""
    return msgspec.msgpack.encode(msgspec.to_builtins(message) | fields)


SHAPES = ((1, 2, 3, 5, 8), (4, 7), (9,), (1, 1), (), (3, 0), (0, 8), (0,))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ("f32", "bf16"))
def test_numbers_come_back_as_close_as_their_kind_promises(kind, shape):
    tensor = 5 * torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    half = wire.read_down(wire.encode(wire.Share(1, 0, 1, pack({"x": tensor}, kind)))).half
    back = unpack(half, torch.float32, torch.device("cpu"))["x"]
    assert back.shape == tensor.shape and back.dtype == torch.float32
    if kind == "f32":
        assert torch.equal(back, tensor)
    else:
        assert ((back - tensor).abs() <= tensor.abs() / 256).all()
        assert (back != tensor).any() or tensor.numel() < 30


@pytest.mark.parametrize(
    "fields",
    [
        ("f32", [2, 2], b"\0" * 15),
        ("f32", [2, 2], b"\0" * 17),
        ("bf16", [2], b"\0" * 4, b"\0" * 4),
        ("f64", [1], b"\0" * 8),
        ("f32", [-1, -1], b"\0" * 4),
        ("f32", [2**24] * 6, b""),
        ("f32", [2**24, 2**24, 2**24, 0], b""),
        ("f32", [2**25, 0], b""),
        ("f32", [1] * 7, b"\0" * 4),
        ("f32", [1.0], b"\0" * 4),
        ("f32", "2", b"\0" * 4),
        ("f32", [1]),
        (),
    ],
)
def test_numbers_that_do_not_fill_their_shape_are_refused(fields):
    share = changed(wire.Share(1, 0, 1, {}), half={"x": list(fields)})
    with pytest.raises(wire.WireError):
        wire.read_down(share)


HELLO = wire.Hello(1, "let me in", "moa-n1", "abc", "f32", "a session")
PREFILL = wire.Prefill(1, [5, 9, 33], 60, wire.Sampled(0.8, 0.9, 40, -3), 16)
VERIFY = wire.Verify(2, 7, [4, 5, 6, 7], [-1, 0, 0, 2])
STREAM = wire.Stream(4, 9, 17, 100)
SHORT = wire.First(1, 5, 0.25, 0.125)
WRONG = {
    "no tree: empty": changed(VERIFY, tokens=[], parents=[]),
    "no tree: other lengths": changed(VERIFY, parents=[-1, 0]),
    "no tree: two roots": changed(VERIFY, parents=[-1, 0, -1, 2]),
    "no tree: a parent after its child": changed(VERIFY, parents=[-1, 3, 0, 2]),
    "no tree: a parent that is none": changed(VERIFY, parents=[-1, 0, 0, 4096]),
    "a parent below the root's": changed(VERIFY, parents=[-2, 0, 0, 2]),
    "too many nodes": changed(VERIFY, tokens=[1] * 32770, parents=list(range(-1, 32769))),
    "a position below 0": changed(VERIFY, position=-1),
    "a token below 0": changed(VERIFY, tokens=[-4, 5, 6, 7]),
    "a token beyond 31 bits": changed(PREFILL, ids=[2**31]),
    "too many tokens": changed(PREFILL, ids=[1] * 200_001),
    "no room": changed(PREFILL, capacity=0),
    "endless room": changed(PREFILL, capacity=2**40),
    "having less than nothing": changed(PREFILL, have=-1),
    "a cold temperature": changed(PREFILL, sampling={"temperature": -1.0}),
    "an endless temperature": changed(PREFILL, sampling={"temperature": float("inf")}),
    "no temperature": changed(PREFILL, sampling={"temperature": math.nan}),
    "no top-p": changed(PREFILL, sampling={"top_p": 0.0}),
    "an endless stream": changed(STREAM, count=2**40),
    "an unknown kind of numbers": changed(HELLO, kind="f64"),
    "a long name": changed(HELLO, session="x" * 201),
    "all layers and more": changed(wire.Fetch(1), last=1025),
    "a field of its own": changed(VERIFY, more=1),
    "a setting of its own": changed(PREFILL, sampling={"temperature": 0.5, "x\x80": 1}),
    "an unknown tag": msgspec.msgpack.encode({"type": "goodbye"}),
    "two messages": wire.encode(HELLO) + wire.encode(HELLO),
    "text": "hello",
    "a list without end": b"\xdd\xff\xff\xff\xff",
    "lists in lists in lists": b"\x91" * 100_000,
    "a name that is no text": changed(HELLO, token="xyz").replace(b"xyz", b"\xed\xa0\x80"),
}  # fmt: skip


@pytest.mark.parametrize("frame", WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_its_type_is_refused(frame):
    with pytest.raises(wire.WireError) as caught:
        wire.read_up(frame)
    assert len(str(caught.value)) < 300


def test_the_longest_chain_and_the_widest_tree_are_read_in_a_moment():
    count = wire.NODES
    chain = wire.Verify(1, 0, [1] * count, list(range(-1, count - 1)))
    star = wire.Verify(1, 0, [1] * count, [-1] + [0] * (count - 1))
    for message in (chain, star):
        frame = wire.encode(message)
        assert len(frame) < wire.MOST_UP and wire.read_up(frame) == message
    assert chain.chain and not star.chain and wire.Verify(1, 0, [1], [-1]).chain


def test_a_long_message_comes_in_parts_with_life_between_them():
    long = wire.Answer(2, [5], [0.5], [1.0], pack({"x": torch.randn(20_000)}, "f32"), 0.5)
    sent = list(wire.frames(long))
    assert len(sent) == 10 and max(map(len, sent)) < wire.PART + 50
    joiner = wire.Joiner()
    taken = []
    for frame in sent:
        taken += [joiner.take(frame), joiner.take(wire.encode(wire.Alive()))]
    assert taken == [None, wire.Alive()] * 9 + [long, wire.Alive()]
    assert joiner.take(wire.encode(SHORT)) == SHORT


def test_parts_that_are_no_message_are_refused(monkeypatch):
    with pytest.raises(wire.WireError, match="a part of a part"):
        wire.Joiner().take(wire.encode(wire.Part(wire.encode(wire.Part(b"", False)), False)))
    with pytest.raises(wire.WireError):
        wire.Joiner().take(wire.encode(wire.Part(b"abc", False)))
    assert wire.MOST_WHOLE > 2 * wire.MOST_DOWN
    monkeypatch.setattr(wire, "MOST_WHOLE", 1000)
    joiner = wire.Joiner()
    with pytest.raises(wire.WireError, match="no end"):
        for _ in range(11):
            assert joiner.take(wire.encode(wire.Part(bytes(100), True))) is None
