"""Messages: they come back as they went, and what is none of ours is refused, never worse."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import torch

from moa_core.errors import UserError
from moa_core.link import tensors as numbers
from moa_core.link import wire
from moa_core.link.tensors import Numbers, check_kind, pack, unpack
from moa_core.link.wire import (
    Alive,
    Answer,
    Fetch,
    First,
    Hello,
    Joiner,
    Part,
    Piece,
    Prefill,
    Pushed,
    Refused,
    Sampled,
    Share,
    Stream,
    Verify,
    Welcome,
    WireError,
    encode,
    frames,
    read_down,
    read_up,
)

HALF = pack({"memory": torch.arange(24.0).reshape(1, 2, 3, 4) - 7}, "bf16")
UPS = (
    Hello(1, "let me in", "moa-n1", "abc", "int8", "a session"),
    Hello(1),
    Prefill(1, [5, 9, 33], 60, Sampled(0.8, 0.9, 40, -3), 16),
    Verify(2, 7, [4, 5, 6, 7], [-1, 0, 0, 2]),
    Verify(3, 0, [4, 5, 6], [-1, 0, 1], keep=True),
    Stream(4, 9, 17, 100),
    Fetch(3),
)
DOWNS = (
    Welcome("a session", "tiny", "mark", 12, 3),
    First(1, 5, 0.25, 0.125),
    Share(1, 16, 16, HALF),
    Answer(2, [5, 6], [0.5, 0.25], [1.0, 0.125], HALF, 0.5),
    Pushed(4, 10, 8, 0.5, 0.001),
    Piece("config.json", b"{}", 99),
    Alive(),
    Part(b"abc", True),
    Refused("The token is wrong."),
    Refused("Nothing was asked.", True),
)


@pytest.mark.parametrize("message", UPS, ids=lambda one: type(one).__name__)
def test_a_client_s_messages_come_back_as_they_went(message: Any) -> None:
    assert read_up(encode(message)) == message
    with pytest.raises(WireError):
        read_down(encode(message))


@pytest.mark.parametrize("message", DOWNS, ids=lambda one: type(one).__name__)
def test_a_server_s_messages_come_back_as_they_went(message: Any) -> None:
    assert read_down(encode(message)) == message
    with pytest.raises(WireError):
        read_up(encode(message))


# ---- numbers ----

SHAPES = ((1, 2, 3, 5, 8), (4, 7), (9,), (1, 1), (), (3, 0), (0, 8), (0,))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ("f32", "bf16", "int8"))
def test_numbers_come_back_as_close_as_their_kind_promises(kind: str, shape: tuple) -> None:
    tensor = 5 * torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    half = read_down(encode(Share(1, 0, 1, pack({"x": tensor}, kind)))).half
    back = unpack(half, torch.float32, torch.device("cpu"))["x"]
    assert back.shape == tensor.shape and back.dtype == torch.float32
    if not tensor.numel():
        return
    largest = tensor.abs().amax(-1, keepdim=True)
    bound = {"f32": 0.0, "bf16": tensor.abs() / 256, "int8": largest / 254 * (1 + 1e-5)}[kind]
    assert ((back - tensor).abs() <= bound).all()
    if kind != "f32" and tensor.numel() > 30:
        assert (back != tensor).any()


def test_int8_is_exact_at_zero_and_at_the_largest_of_a_row() -> None:
    tensor = torch.tensor([[0.0, 0.0, 0.0], [-3.0, 0.0, 1.5], [1e-6, 0.0, -1e-6]])
    back = unpack(pack({"x": tensor}, "int8"), torch.float32, torch.device("cpu"))["x"]
    assert torch.equal(back[0], tensor[0])
    assert torch.allclose(back[:, 0], tensor[:, 0], rtol=1e-6, atol=0)
    assert back[1, 2] == pytest.approx(1.5, abs=3 / 254)


def test_bytes_of_numbers_are_what_their_kind_says() -> None:
    tensor = torch.ones(4, 8, dtype=torch.bfloat16)
    sizes = [len(pack({"x": tensor}, kind)["x"].data) for kind in ("f32", "bf16", "int8")]
    assert sizes == [128, 64, 32] and len(pack({"x": tensor}, "int8")["x"].scales) == 16


def raw(*fields: Any) -> bytes:
    """A share whose numbers have these fields, unchecked."""
    share = {"type": "share", "number": 1, "start": 0, "count": 1, "half": {"x": list(fields)}}
    return msgspec.msgpack.encode(share)


@pytest.mark.parametrize(
    "fields",
    [
        ("f32", [2, 2], b"\0" * 15),
        ("f32", [2, 2], b"\0" * 17),
        ("bf16", [2], b"\0" * 4, b"\0" * 4),
        ("int8", [2, 3], b"\0" * 6),
        ("int8", [2, 3], b"\0" * 6, b"\0" * 4),
        ("int8", [2, 0], b"", b"\0" * 8),
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
def test_numbers_that_do_not_fill_their_shape_are_refused(fields: tuple) -> None:
    with pytest.raises(WireError):
        read_down(raw(*fields))


def test_an_unknown_kind_is_refused_in_a_sentence() -> None:
    assert check_kind("int8") == "int8"
    with pytest.raises(UserError, match="f32, bf16, int8, not as 'int4'"):
        check_kind("int4")
    with pytest.raises(ValueError):
        Numbers("f32", [3], b"")


# ---- what a client may not say ----


def changed(message: Any, **fields: Any) -> bytes:
    """A message with some fields changed, unchecked."""
    return msgspec.msgpack.encode(msgspec.to_builtins(message) | fields)


HELLO, PREFILL, VERIFY, STREAM = UPS[0], UPS[2], UPS[3], UPS[5]
WRONG = {
    "no tree: empty": changed(VERIFY, tokens=[], parents=[]),
    "no tree: other lengths": changed(VERIFY, parents=[-1, 0]),
    "no tree: a root with a parent": changed(VERIFY, parents=[0, 0, 0, 2]),
    "no tree: two roots": changed(VERIFY, parents=[-1, 0, -1, 2]),
    "no tree: its own parent": changed(VERIFY, parents=[-1, 0, 2, 2]),
    "no tree: a parent after its child": changed(VERIFY, parents=[-1, 3, 0, 2]),
    "no tree: a parent that is none": changed(VERIFY, parents=[-1, 0, 0, 4096]),
    "a parent below the root's": changed(VERIFY, parents=[-2, 0, 0, 2]),
    "kept, but no chain": changed(VERIFY, keep=True),
    "too many nodes": changed(VERIFY, tokens=[1] * 32770, parents=list(range(-1, 32769))),
    "200,000 nodes": changed(VERIFY, tokens=[1] * 200_000, parents=[-1] + [0] * 199_999),
    "a position below 0": changed(VERIFY, position=-1),
    "a position beyond all numbers": changed(VERIFY, position=2**60),
    "a token below 0": changed(VERIFY, tokens=[-4, 5, 6, 7]),
    "a token beyond 31 bits": changed(PREFILL, ids=[2**31]),
    "too many tokens": changed(PREFILL, ids=[1] * 200_001),
    "a token that is no number": changed(PREFILL, ids=["1"]),
    "a token in parts": changed(PREFILL, ids=[1.5]),
    "a text for tokens": changed(PREFILL, ids="123"),
    "no room": changed(PREFILL, capacity=0),
    "endless room": changed(PREFILL, capacity=2**40),
    "having less than nothing": changed(PREFILL, have=-1),
    "a number that is a truth": changed(PREFILL, number=True),
    "a cold temperature": changed(PREFILL, sampling={"temperature": -1.0}),
    "an endless temperature": changed(PREFILL, sampling={"temperature": float("inf")}),
    "no top-p": changed(PREFILL, sampling={"top_p": 0.0}),
    "an endless stream": changed(STREAM, count=2**40),
    "an empty stream": changed(STREAM, count=0),
    "an unknown kind of numbers": changed(HELLO, kind="f64"),
    "a long name": changed(HELLO, session="x" * 201),
    "a version in words": changed(HELLO, version="1"),
    "all layers and more": changed(Fetch(1), last=1025),
    "a field of its own": changed(VERIFY, more=1),
    "a setting of its own": changed(PREFILL, sampling={"temperature": 0.5, "x\x80": 1}),
    "no tag": msgspec.msgpack.encode({"version": 1}),
    "an unknown tag": msgspec.msgpack.encode({"type": "goodbye"}),
    "a tag that is none": msgspec.msgpack.encode({"type": [1]}),
    "two messages": encode(UPS[0]) + encode(UPS[0]),
    "half a message": encode(UPS[0])[:-1],
    "nothing": b"",
    "text": "hello",
    "a list": msgspec.msgpack.encode(["hello", 1]),
    "a number": msgspec.msgpack.encode(7),
    "a list without end": b"\xdd\xff\xff\xff\xff",
    "lists in lists in lists": b"\x91" * 100_000,
    "maps in maps": b"\x81\xa1a" * 100_000,
    "an extension": b"\xc7\x10\x05" + b"\0" * 16,
    "a name that is no text": changed(HELLO, token="xyz").replace(b"xyz", b"\xed\xa0\x80"),
}  # fmt: skip


@pytest.mark.parametrize("frame", WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_its_type_is_refused(frame: bytes | str) -> None:
    with pytest.raises(WireError) as caught:
        read_up(frame)
    assert len(str(caught.value)) < 300


def test_the_longest_chain_and_the_widest_tree_are_read_in_a_moment() -> None:
    count = wire.NODES
    chain = Verify(1, 0, [1] * count, list(range(-1, count - 1)), keep=True)
    star = Verify(1, 0, [1] * count, [-1] + [0] * (count - 1))
    for message in (chain, star):
        frame = encode(message)
        assert len(frame) < wire.MOST_UP and read_up(frame) == message
    assert chain.chain and not star.chain and Verify(1, 0, [1], [-1]).chain


# ---- whatever comes ----


def mutated(draw: random.Random, frame: bytes) -> bytes:
    """Some bytes changed, cut out, doubled, or from another frame."""
    data = bytearray(frame)
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(len(data) + 1)
        match draw.randrange(5):
            case 0:
                data[place : place + 1] = bytes([draw.randrange(256)])
            case 1:
                del data[place : place + draw.randint(1, 8)]
            case 2:
                data[place:place] = draw.randbytes(draw.randint(1, 8))
            case 3:
                data[place:place] = data[: draw.randint(0, len(data))]
            case 4:
                other = encode(draw.choice(UPS + DOWNS))
                data[place:] = other[draw.randrange(len(other)) :]
    return bytes(data)


def anything(seed: int, count: int) -> Iterator[bytes]:
    draw = random.Random(seed)
    for number in range(count):
        if number % 4:
            yield mutated(draw, encode(draw.choice(UPS + DOWNS)))
        else:
            yield draw.randbytes(draw.randint(0, 200))


def test_ten_thousand_frames_do_nothing_worse_than_being_refused() -> None:
    refused = 0
    for frame in anything(7, 10_000):
        for read in (read_up, read_down):
            try:
                message = read(frame)
            except WireError:
                refused += 1
            else:  # it still says something: then all of its types are right
                assert encode(read(encode(message))) == encode(message)
    assert refused > 15_000


def test_ten_thousand_frames_do_no_harm_to_what_puts_parts_together() -> None:
    joiner = Joiner()
    for frame in anything(8, 10_000):
        try:
            joiner.take(encode(Part(frame, more=len(frame) % 2 == 0)))
        except WireError:
            continue


# ---- long messages ----


def test_a_long_message_comes_in_parts_with_life_between_them() -> None:
    long = Answer(2, [5], [0.5], [1.0], pack({"x": torch.randn(20_000)}, "f32"), 0.5)
    sent = list(frames(long))
    assert len(sent) == 10 and max(map(len, sent)) < wire.PART + 50
    joiner = Joiner()
    taken = []
    for frame in sent:
        taken += [joiner.take(frame), joiner.take(encode(Alive()))]
    assert taken == [None, Alive()] * 9 + [long, Alive()]
    assert joiner.take(encode(DOWNS[1])) == DOWNS[1]


def test_a_short_message_and_a_piece_of_a_file_come_whole() -> None:
    assert [*frames(DOWNS[3])] == [encode(DOWNS[3])]
    piece = Piece("model.safetensors", bytes(wire.PIECE), wire.PIECE)
    assert [*frames(piece)] == [encode(piece)] and len(encode(piece)) < wire.MOST_DOWN


def test_parts_that_are_no_message_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WireError, match="a part of a part"):
        Joiner().take(encode(Part(encode(Part(b"", False)), False)))
    with pytest.raises(WireError):
        Joiner().take(encode(Part(b"abc", False)))
    monkeypatch.setattr(wire, "MOST_WHOLE", 1000)
    joiner = Joiner()
    with pytest.raises(WireError, match="no end"):
        for _ in range(11):
            assert joiner.take(encode(Part(bytes(100), True))) is None
    assert numbers.MOST_WHOLE > 2 * wire.MOST_DOWN
